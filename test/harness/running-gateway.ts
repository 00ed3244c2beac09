/**
 * Starts the parts of a gateway: new database and storage, a sandbox process, an API and Temporal
 * workers in the process of the test, the servers of its callers, and further API or worker
 * processes that tests start and kill.
 */
import assert from 'node:assert/strict';
import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';
import type { Services } from '../../process/services.ts';
import { startApi, type Api } from '../../api/server.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { compileCache } from '../../dev/stack/node-service.ts';
import { loadConfig, type Config } from '../../platform/config.ts';
import { createLogger } from '../../platform/logger.ts';
import { knownProviders } from '../../process/run-process.ts';
import { connectWorkers } from '../../worker/runtime.ts';
import { startStudioWorkers } from '../../worker/studio-worker.ts';
import { checkResponses } from './check-responses.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { startMediaServer } from './media-server.ts';
import { newFolder } from './folders.ts';
import { installTestRuntime } from './runtime.ts';
import { makeSettings, startSandbox, type TestSandbox } from './sandbox.ts';
import { startWebhookReceiver } from './webhook-receiver.ts';

/** A running gateway without callers. */
export type RunningGateway = Awaited<ReturnType<typeof startParts>>;

/** A log line of a process. */
export type LogLine = Record<string, unknown> & { msg: string };

/** A process of the gateway that a test may end. */
export interface SpawnedProcess {
  child: ChildProcess;
  /** The port of an API process; 0 for a worker. */
  port: number;
  /** The port of its metrics; 0 without METRICS_PORT. */
  metricsPort: number;
  /** Its log lines. */
  lines: LogLine[];
  /** Its writes to stderr. */
  errors: string[];
}

/** Settings that differ from those of the shared gateway. */
export interface GatewayOptions {
  env?: Record<string, string>;
  /** Duration of an image request in the sandbox, milliseconds. */
  latencyMs?: number;
  sandboxEnv?: Record<string, string>;
  /** False: the process of the test runs no workers, and the test starts its own. */
  worker?: boolean;
  /** Returns settings with another way to the database. */
  reach?: (databaseUrl: string) => Promise<Record<string, string>>;
  /** Further private origins from which the gateway may read inputs. */
  admittedOrigins?: readonly string[];
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const logger = createLogger('test', process.env['TEST_LOG_LEVEL'] ?? 'silent');

/** Starts the parts of a gateway. */
export async function startParts(options: GatewayOptions) {
  installTestRuntime(logger);
  const { admittedOrigins = [] } = options;
  const directory = newFolder();
  const [database, media, receiver, sandbox] = await Promise.all([
    createTestDatabase(),
    startMediaServer(),
    startWebhookReceiver(),
    startSandbox({
      dataDir: join(directory, 'sandbox'),
      latencyMs: options.latencyMs ?? 20,
      ...(options.sandboxEnv && { env: options.sandboxEnv }),
    }),
  ]);
  const env: Record<string, string> = {
    NODE_ENV: 'test',
    ...makeEnvironment({ database, sandbox, directory }),
    ...(await makeAddress([sandbox.url, media.origin, receiver.origin, ...admittedOrigins])),
    ...(await options.reach?.(database.url)),
    ...options.env,
  };
  const { api, config } = await startTestApi(env);
  const stopWorkers = options.worker === false ? null : await startWorkers(config, api.services);
  const spawned = createSpawner(env);

  return {
    url: `http://127.0.0.1:${api.port}`,
    api,
    config,
    env,
    database,
    sandbox,
    /** A public media server, from which the gateway may read. */
    media,
    /** A caller’s server, to which the gateway may send webhooks. */
    receiver,
    ...spawned,
    async close(): Promise<void> {
      await spawned.endSpawned();
      // A call that hangs in the sandbox would delay the stop of the workers by a minute.
      await Promise.all([stopWorkers?.(), sandbox.stop()]);
      await api.close();
      media.close();
      receiver.close();
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/**
 * Starts an API with its own settings for the database, sandbox and workers of a running gateway.
 * It also sets the time limits of jobs, because they are in the plan. `close` ends only this API.
 */
export async function startFurtherApi(
  parts: RunningGateway,
  further: Record<string, string>,
  unchecked: Partial<Config> = {},
): Promise<RunningGateway> {
  const admitted = parts.config.ALLOW_PRIVATE_NETWORK_ORIGINS;
  const env = { ...parts.env, ...(await makeAddress(admitted)), ...further };
  const { api, config } = await startTestApi(env, unchecked);
  const spawned = createSpawner(env);
  return {
    ...parts,
    url: `http://127.0.0.1:${api.port}`,
    api,
    config,
    env,
    ...spawned,
    async close() {
      await spawned.endSpawned();
      await api.close();
    },
  };
}

/**
 * Returns the settings of an API on a free port, which may read from these origins and from itself.
 */
async function makeAddress(admitted: readonly string[]): Promise<Record<string, string>> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  return {
    API_PORT: String(port),
    PUBLIC_BASE_URL: url,
    ALLOW_PRIVATE_NETWORK_ORIGINS: [...admitted, url].join(),
  };
}

async function startTestApi(
  env: Record<string, string>,
  unchecked: Partial<Config> = {},
): Promise<{ api: Api; config: Config }> {
  const config = { ...loadConfig(knownProviders, env), ...unchecked };
  return { config, api: await startApi({ config, logger, observe: checkResponses }) };
}

/** Returns functions that start and end processes and APIs with these settings. */
function createSpawner(env: Record<string, string>) {
  const children: ChildProcess[] = [];
  const apis: Api[] = [];
  return {
    /**
     * Starts another process of this gateway (`api/main.ts` or `worker/main.ts`) and waits until it is
     * ready. Its log lines are added to `lines`, also before.
     */
    async spawn(
      script: 'api' | 'worker',
      extra: Record<string, string> = {},
      lines: LogLine[] = [],
    ): Promise<SpawnedProcess> {
      const child = fork(join(root, script, 'main.ts'), {
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: { PATH: process.env['PATH'], ...compileCache, ...env, LOG_LEVEL: 'fatal', ...extra },
      });
      children.push(child);
      const errors: string[] = [];
      child.stderr?.setEncoding('utf8').on('data', (text: string) => {
        errors.push(text);
        process.stderr.write(text);
      });
      createInterface({ input: child.stdout ?? assert.fail('stdout is a pipe') }).on(
        'line',
        (line) => lines.push(JSON.parse(line) as LogLine),
      );
      const [message] = await Promise.race([
        once(child, 'message'),
        once(child, 'exit').then(([code]) => {
          throw new Error(`${script} exited with ${code} before it was ready`);
        }),
      ]);
      const { port, metricsPort } = message as { port?: number; metricsPort?: number | null };
      return { child, port: port ?? 0, metricsPort: metricsPort ?? 0, lines, errors };
    },
    /**
     * Starts another API of this gateway in the process of the test, which costs a tenth of a process
     * of its own; returns its URL.
     */
    async startSecondApi(extra: Record<string, string> = {}): Promise<string> {
      const admitted = env['ALLOW_PRIVATE_NETWORK_ORIGINS'] ?? '';
      const { api } = await startTestApi({ ...env, ...(await makeAddress([admitted])), ...extra });
      apis.push(api);
      return `http://127.0.0.1:${api.port}`;
    },
    /** Kills the processes that `spawn` started, and closes the APIs of `startSecondApi`. */
    async endSpawned(): Promise<void> {
      await Promise.all(children.splice(0).map(endChild));
      await Promise.all(apis.splice(0).map((api) => api.close()));
    },
  };
}

/** Starts workers with the services of the API; returns a function that stops them. */
export async function startWorkers(
  config: Config,
  services: Services,
): Promise<() => Promise<void>> {
  const connection = await connectWorkers(config);
  const workers = await startStudioWorkers({ config, connection, services });
  return async () => {
    workers.shutdown();
    await workers.done.catch(() => {});
    await connection.close();
  };
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

interface Parts {
  database: TestDatabase;
  sandbox: TestSandbox;
  directory: string;
}

function makeEnvironment({ database, sandbox, directory }: Parts): Record<string, string> {
  return {
    ...makeSettings(sandbox.url),
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    // All test files share one Temporal server, so each needs its own task queues.
    TASK_QUEUE_PREFIX: `${randomUUID().slice(0, 8)}-`,
    STORAGE_DIR: join(directory, 'storage'),
    WEBHOOK_RETRY_DELAYS_MS: '200,200,200',
    WEBHOOK_TIMEOUT_MS: '2000',
    OUTCOME_WAIT_MS: '8000',
    TEMPORAL_UI_ORIGINS: 'http://127.0.0.1:8233',
    LOG_LEVEL: 'silent',
  };
}
