/**
 * A complete gateway in separate processes (Postgres, Temporal, the sandbox, APIs and workers),
 * each of which can be killed, frozen and restarted on the same port with the same data.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { microFromCredits } from '../../domain/credits.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { migrate } from '../../platform/migrations.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { nodeService } from '../../dev/stack/node-service.ts';
import { startPostgres } from '../../dev/stack/postgres.ts';
import type { Running } from '../../dev/stack/running.ts';
import { startTemporal } from '../../dev/stack/temporal.ts';
import { makeTemporaryDirectory } from '../../dev/stack/temporary-directory.ts';
import { createCaller, type TestCaller } from '../harness/callers.ts';
import { drawDisc, makeFilm, makeSpeech } from '../harness/media.ts';
import { startMediaServer } from '../harness/media-server.ts';
import { newSecret, sandboxSettings, makeSettings } from '../harness/sandbox.ts';
import { startControl } from './control.ts';
import type { Inputs } from './kinds.ts';

/** Processes that can be killed. `api2` and `worker2` run only if `run` names them. */
export const parts = [
  'postgres',
  'temporal',
  'sandbox',
  'api',
  'worker',
  'api2',
  'worker2',
] as const;
/** A process of the stack. */
export type Part = (typeof parts)[number];

interface StackOptions {
  /** Parts to run in addition to Postgres, Temporal and the sandbox. Default: one API, one worker. */
  run?: readonly Part[];
  env?: Record<string, string>;
  /** Shift of a part's clock, in milliseconds. */
  clockShiftMs?: Partial<Record<Part, number>>;
  /** True to run api/main.ts and worker/main.ts with metrics; they do not wait at points. */
  asDeployed?: boolean;
}

/** A running stack. */
export type FaultStack = Awaited<ReturnType<typeof startStack>>;

const programs = fileURLToPath(new URL('./', import.meta.url));
const project = fileURLToPath(new URL('../../', import.meta.url));
const shiftedClock = new URL('shifted-clock.ts', import.meta.url).href;
const logger = createLogger('faults', 'silent');

const listeners = ['postgres', 'temporal', 'sandbox', 'api', 'api2'] as const;
type Ports = Record<(typeof listeners)[number], number>;

interface Places {
  ports: Ports;
  password: string;
  directory: string;
  origins: string[];
}

/** Makes the environment variables of the processes of a stack. */
function makeEnvironment({ ports, password, directory, origins }: Places): Record<string, string> {
  const sandboxUrl = `http://127.0.0.1:${ports.sandbox}`;
  const url = `http://127.0.0.1:${ports.api}`;
  return {
    NODE_ENV: 'test',
    ...makeSettings(sandboxUrl),
    DATABASE_URL: `postgres://postgres:${password}@127.0.0.1:${ports.postgres}/gateway`,
    TEMPORAL_ADDRESS: `127.0.0.1:${ports.temporal}`,
    API_PORT: String(ports.api),
    PUBLIC_BASE_URL: url,
    STORAGE_DIR: join(directory, 'storage'),
    ELEVENLABS_CONCURRENCY: '50',
    ALLOW_PRIVATE_NETWORK_ORIGINS: [sandboxUrl, url, ...origins].join(),
    SYNC_WAIT_MS: '20000',
    // An organization holds at most half of the starts, and a column holds 14 of them.
    TEMPORAL_STARTS_MAX: '32',
    OUTCOME_WAIT_MS: '6000',
    RESERVATION_TTL_MS: '4000',
    SWEEP_INTERVAL_MS: '500',
    LOG_LEVEL: 'warn',
    SANDBOX_PORT: String(ports.sandbox),
    SANDBOX_DATA_DIR: join(directory, 'sandbox'),
    ...sandboxSettings,
    SANDBOX_LATENCY_MS: '100',
    SANDBOX_TINY_MEDIA: '1',
  };
}

function shiftClock(shiftMs: number | undefined): Record<string, string> {
  if (shiftMs === undefined) return {};
  return { NODE_OPTIONS: `--import=${shiftedClock}`, CLOCK_SHIFT_MS: String(shiftMs) };
}

/** Starts a stack with inputs of every kind, and an organization that has credits. */
export async function startStack(options: StackOptions = {}) {
  const directory = makeTemporaryDirectory('faults');
  const ports: Ports = { postgres: 0, temporal: 0, sandbox: 0, api: 0, api2: 0 };
  for (const name of listeners) ports[name] = await freePort();
  const password = newSecret();
  const control = await startControl();
  const media = await startMediaServer();
  const env: Record<string, string> = {
    ...makeEnvironment({ ports, password, directory, origins: [media.origin] }),
    FAULT_CONTROL_URL: control.url,
    ...options.env,
  };
  const path = { PATH: process.env['PATH'] };
  const logPath = (part: Part): string => join(directory, 'logs', `${part}.log`);

  const node =
    (part: Part, script: string, extra: Record<string, string> = {}) =>
    (): Promise<Running> =>
      nodeService({
        name: part,
        script,
        logPath: logPath(part),
        env: { ...path, ...env, ...shiftClock(options.clockShiftMs?.[part]), ...extra },
      }).start();
  const metricsPorts = new Map<Part, number>();
  const gateway = (part: 'api' | 'api2' | 'worker' | 'worker2') => async (build?: string) => {
    const kind = part.startsWith('api') ? 'api' : 'worker';
    const port = kind === 'api' && { API_PORT: String(ports[part as 'api' | 'api2']) };
    if (!options.asDeployed) return node(part, `${programs}${kind}.ts`, { ...port })();
    const metricsPort = metricsPorts.get(part) ?? (await freePort());
    metricsPorts.set(part, metricsPort);
    const script = join(build ?? project, kind, 'main.ts');
    return node(part, script, { ...port, METRICS_PORT: String(metricsPort) })();
  };
  const starts: Record<Part, (build?: string) => Promise<Running>> = {
    postgres: () =>
      startPostgres({
        dataDir: join(directory, 'postgres'),
        port: ports.postgres,
        password,
        logPath: logPath('postgres'),
        // A killed process loses no data that the kernel has received, and no test cuts the power.
        settings: { fsync: 'off' },
      }),
    temporal: () =>
      startTemporal({
        dataDir: join(directory, 'temporal'),
        port: ports.temporal,
        uiPort: null,
        logPath: logPath('temporal'),
      }),
    sandbox: node('sandbox', join(project, 'dev/sandbox/main.ts')),
    api: gateway('api'),
    worker: gateway('worker'),
    api2: gateway('api2'),
    worker2: gateway('worker2'),
  };
  const running = new Map<Part, Running>();
  const lost: Part[] = [];

  function runningPart(part: Part): Running {
    const found = running.get(part);
    if (!found) throw new Error(`${part} is not running`);
    return found;
  }

  async function noteLoss(part: Part, started: Running): Promise<void> {
    await started.exited;
    // `kill` and `end` remove the part from `running` first.
    if (running.get(part) !== started) return;
    running.delete(part);
    lost.push(part);
  }

  /** Starts a part that is not running; `build` is the folder of another version. */
  async function start(part: Part, build?: string): Promise<void> {
    if (running.has(part)) throw new Error(`${part} is running`);
    // Processes of a killed Postgres may keep its shared memory for a moment.
    for (let attempt = 0; ; attempt += 1) {
      try {
        const started = await starts[part](build);
        running.set(part, started);
        void noteLoss(part, started);
        return;
      } catch (error) {
        if (attempt === 5) throw error;
        await sleep(500);
      }
    }
  }

  /** Sends SIGKILL; returns when the process has ended. */
  async function kill(part: Part): Promise<void> {
    const ended = runningPart(part);
    running.delete(part);
    ended.kill();
    await ended.exited;
  }

  // Its connections are opened again after a restart of Postgres.
  const openPool = (): Pool =>
    new Pool({ connectionString: env['DATABASE_URL'], connectionTimeoutMillis: 5000 }).on(
      'error',
      () => {},
    );
  let pool = openPool();

  async function newCaller(credits: number, windowCredits?: number): Promise<TestCaller> {
    const database = await openDatabase({ url: env['DATABASE_URL'] ?? '', poolMax: 2, logger });
    try {
      return await createCaller(database, env['KEY_PEPPER'] ?? '', {
        amountMicro: microFromCredits(credits),
        windowLimitMicro: windowCredits === undefined ? null : microFromCredits(windowCredits),
      });
    } finally {
      await database.end();
    }
  }

  async function close(): Promise<void> {
    control.release();
    await Promise.all([pool.end(), ...[...running.keys()].map(kill)]);
    control.close();
    media.close();
    rmSync(directory, { recursive: true, force: true });
  }

  /** Returns the URL of an API. */
  const getUrl = (part: 'api' | 'api2'): string => `http://127.0.0.1:${ports[part]}`;
  try {
    await Promise.all([start('postgres'), start('temporal'), start('sandbox')]);
    await migrate(env['DATABASE_URL'] ?? '');
    await Promise.all((options.run ?? ['api', 'worker']).map((part) => start(part)));
    const caller = await newCaller(1_000_000);
    const [picture, film, speech] = await Promise.all([
      drawDisc(64, 64),
      makeFilm({ hasAudio: true }),
      makeSpeech(2),
    ]);
    const inputs: Inputs = {
      picture: media.put('/picture.png', picture),
      film: media.put('/film.mp4', film),
      speech: media.put('/speech.mp3', speech),
    };
    return {
      url: getUrl('api'),
      env: env as Readonly<typeof env>,
      control,
      caller,
      inputs,
      get databaseUrl() {
        return env['DATABASE_URL'] ?? '';
      },
      sandboxUrl: `http://127.0.0.1:${ports.sandbox}`,
      directory,
      getUrl,
      getPid: (part: Part): number => runningPart(part).pid,
      /** Returns the parts that ended by themselves since the last call. */
      takeLost: (): Part[] => lost.splice(0),
      kill,
      /** Sends SIGTERM; returns the exit code when the process has ended. */
      async end(part: Part): Promise<number | null> {
        const { pid, exited } = runningPart(part);
        running.delete(part);
        process.kill(pid, 'SIGTERM');
        return (await exited).code;
      },
      start,
      /** Adds environment variables for processes that start later. */
      configure(settings: Record<string, string>): void {
        Object.assign(env, settings);
        void pool.end();
        pool = openPool();
      },
      /** Returns the URL of the metrics of a part with `asDeployed`; null while it is not running. */
      getMetricsUrl(part: Part): string | null {
        const port = running.has(part) && metricsPorts.get(part);
        return port ? `http://127.0.0.1:${port}/metrics` : null;
      },
      /** Copies the data of Postgres or Temporal, or restores the copy; the server is restarted. */
      async copyData(part: 'postgres' | 'temporal', way: 'take' | 'put back'): Promise<void> {
        const data = join(directory, part);
        await kill(part);
        // The child processes end after their parent.
        await sleep(1000);
        const [from, to] = way === 'take' ? [data, `${data}-copy`] : [`${data}-copy`, data];
        rmSync(to, { recursive: true, force: true });
        // With owners and modes.
        execFileSync('cp', ['-a', from, to]);
        await start(part);
      },
      /** Stops or continues a part and all of its children, as SIGSTOP and SIGCONT do. */
      freeze(part: Part, frozen: boolean): void {
        const { pid } = runningPart(part);
        const signal = frozen ? 'SIGSTOP' : 'SIGCONT';
        // Each Postgres process has its own process group.
        for (const one of [pid, ...listChildren(pid)]) process.kill(one, signal);
      },
      newCaller,
      query: async <Row extends object>(text: string, values?: unknown[]) =>
        (await pool.query(text, values)).rows as Row[],
      /** Returns the log of a part. */
      readLog: (part: Part): string => readText(logPath(part)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function listChildren(pid: number): number[] {
  const listed = execFileSync('ps', ['-eo', 'pid=,ppid='], { encoding: 'utf8' });
  return listed
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
    .map(([child = 0]) => child);
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
