/**
 * A gateway for one test file: fresh database and storage, a sandbox process, an API and Temporal workers in the
 * process of the test, and further API or worker processes for tests that start or kill them.
 */
import { knownProviders } from '../../providers/registry.ts';
import { sandboxedProviders } from './variables.ts';
import assert from 'node:assert/strict';
import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, expect, inject } from 'vitest';
import { runAudit } from '../../ledger/audit.ts';
import type { Services } from '../../activities/services.ts';
import { startApi, type Api } from '../../api/server.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import type { Scope } from '../../api/identity/access.ts';
import { microFromCredits, type CreditsBlock } from '../../domain/credits.ts';
import type { ErrorDetail } from '../../domain/errors.ts';
import { loadConfig, type Config } from '../../platform/config.ts';
import { createLogger } from '../../platform/logger.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { compileCache } from '../../dev/stack/node-service.ts';
import { connectWorkers, installRuntime } from '../../worker/runtime.ts';
import { startStudioWorkers } from '../../worker/studio-worker.ts';
import { checkResponses } from './check-responses.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { during } from './during.ts';
import { startSandbox, type TestSandbox } from './sandbox.ts';
import { untilHolds } from './until.ts';

/** An organization of a test, with a key. */
export interface TestCaller {
  organizationId: string;
  memberId: string;
  keyId: string;
  key: string;
}

/** An answer with its body read. */
export interface Answer<Body = StudioBody> {
  status: number;
  headers: Headers;
  body: Body;
}

/** The fields tests read of Studio answers and errors; which of them are there is what is tested. */
export interface StudioBody {
  success: boolean;
  data: JobData;
  credits: CreditsBlock;
  error: string;
  message: string;
  requestId: string;
  jobId: string;
  details: ErrorDetail[];
  resetAt: string;
}

interface JobData {
  jobId: string;
  status: string;
  done: boolean;
  phase: string;
  statusUrl: string;
  model: string;
  url: string;
  images: { url: string; contentType: string; width: number; height: number }[];
  result: JobData;
  error: { code: string; message: string; retryable: boolean };
  billing: { state: string; reserved: number; charged: number };
}

interface CallOptions {
  method?: string;
  key?: string | null;
  headers?: Record<string, string>;
  body?: unknown;
}

/** The gateway of a test file. */
export interface TestGateway {
  url: string;
  api: Api;
  config: Config;
  env: Record<string, string>;
  database: TestDatabase;
  sandbox: TestSandbox;
  /** The caller whose key `call` uses. */
  caller: TestCaller;
  call: <Body = StudioBody>(path: string, options?: CallOptions) => Promise<Answer<Body>>;
  /** An organization with this many credits and a key. */
  newCaller: (options: CallerOptions) => Promise<TestCaller>;
  /** Polls a job until it is done. */
  untilDone: (jobId: string, key?: string) => Promise<Answer>;
  /** The audit may find nothing, and no reservation may be left open. */
  expectSettled: () => Promise<void>;
  /** Another process of this gateway (`api/main.ts` or `worker/main.ts`), ready. */
  spawn: (script: 'api' | 'worker', env?: Record<string, string>) => Promise<SpawnedProcess>;
  close: () => Promise<void>;
}

/** A line of a process's log. */
export type LogLine = Record<string, unknown> & { msg: string };

/** A process of the gateway that a test may end as it likes. */
export interface SpawnedProcess {
  child: ChildProcess;
  /** Where an API process listens; 0 for a worker. */
  port: number;
  /** Where it serves its metrics; 0 without METRICS_PORT. */
  metricsPort: number;
  /** What it has logged so far. */
  lines: LogLine[];
}

interface CallerOptions {
  credits: number;
  windowCredits?: number;
  scopes?: readonly Scope[];
  allowedModels?: readonly string[];
  expiresAtMs?: number;
}

interface GatewayOptions {
  env?: Record<string, string>;
  /** How long the sandbox takes for an image. */
  latencyMs?: number;
  sandboxEnv?: Record<string, string>;
  /** False: no workers in the process of the test, which spawns its own. */
  worker?: boolean;
  credits?: number;
  /** Further origins that inputs may be read from although they are private. */
  admittedOrigins?: readonly string[];
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const logger = createLogger('test', process.env['TEST_LOG_LEVEL'] ?? 'silent');
let runtimeInstalled = false;

/** Starts a gateway; close it in `afterAll`. */
export async function startGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  if (!runtimeInstalled) installRuntime(logger);
  runtimeInstalled = true;
  const directory = await mkdtemp(join(tmpdir(), 'gateway-test-'));
  const [database, sandbox] = await Promise.all([
    createTestDatabase(),
    startSandbox({
      dataDir: join(directory, 'sandbox'),
      ...(options.latencyMs !== undefined && { latencyMs: options.latencyMs }),
      ...(options.sandboxEnv && { env: options.sandboxEnv }),
    }),
  ]);
  const apiPort = await freePort();
  const url = `http://127.0.0.1:${apiPort}`;
  const env = {
    ...environment({ database, sandbox, directory, url, apiPort }),
    ALLOW_PRIVATE_NETWORK_ORIGINS: [sandbox.url, url, ...(options.admittedOrigins ?? [])].join(),
    ...options.env,
  };
  const config = loadConfig(knownProviders, env);
  const api = await startApi({ config, logger, observe: checkResponses });
  const stopWorkers = options.worker === false ? null : await startWorkers(config, api.services);
  const children: ChildProcess[] = [];

  async function newCaller(wanted: CallerOptions): Promise<TestCaller> {
    const { pool, ledger } = api.services;
    const made = await createOrganization(pool, {
      name: 'Test',
      windowLimitMicro:
        wanted.windowCredits === undefined ? null : microFromCredits(wanted.windowCredits),
    });
    const key = await createKey(pool, config.KEY_PEPPER, {
      ...made,
      name: 'test',
      ...(wanted.scopes && { scopes: wanted.scopes }),
      ...(wanted.allowedModels && { allowedModels: wanted.allowedModels }),
      ...(wanted.expiresAtMs !== undefined && { expiresAtMs: wanted.expiresAtMs }),
    });
    await ledger.grant({
      organizationId: made.organizationId,
      id: 'initial',
      amountMicro: microFromCredits(wanted.credits),
      actor: 'test',
      reason: 'test',
    });
    return { ...made, ...key };
  }
  const caller = await newCaller({ credits: options.credits ?? 10_000 });

  async function call<Body = StudioBody>(
    path: string,
    wanted: CallOptions = {},
  ): Promise<Answer<Body>> {
    const key = wanted.key === undefined ? caller.key : wanted.key;
    const answer = await fetch(`${url}${path}`, {
      method: wanted.method ?? (wanted.body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key !== null && { authorization: `Bearer ${key}` }),
        ...(wanted.body !== undefined && { 'content-type': 'application/json' }),
        ...wanted.headers,
      },
      ...(wanted.body !== undefined && {
        body: typeof wanted.body === 'string' ? wanted.body : JSON.stringify(wanted.body),
      }),
    });
    const text = await answer.text();
    const json = answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : {};
    return { status: answer.status, headers: answer.headers, body: json };
  }

  return {
    url,
    api,
    config,
    env,
    database,
    sandbox,
    caller,
    call,
    newCaller,
    async untilDone(jobId, key = caller.key) {
      for (;;) {
        const answer = await call(`/api/v1/studio/jobs/${jobId}?wait=20`, { key });
        if (answer.status !== 200 || answer.body.data.done) return answer;
      }
    },
    async expectSettled() {
      const { checks } = await runAudit({ databaseUrl: database.url, pool: api.services.pool });
      expect(checks.filter(({ subjects }) => subjects.length > 0)).toEqual([]);
      // A chat is settled after its answer has left.
      await untilHolds(async () =>
        expect(await database.query(`SELECT id FROM reservation WHERE state = 'reserved'`)).toEqual(
          [],
        ),
      );
    },
    async spawn(script, extra = {}) {
      const child = fork(join(root, script, 'main.ts'), {
        stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
        env: { PATH: process.env['PATH'], ...compileCache, ...env, LOG_LEVEL: 'fatal', ...extra },
      });
      children.push(child);
      const lines: LogLine[] = [];
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
      return { child, port: port ?? 0, metricsPort: metricsPort ?? 0, lines };
    },
    async close() {
      await Promise.all(children.map(endChild));
      // A call that hangs at the sandbox would keep the workers from stopping for a minute.
      await Promise.all([stopWorkers?.(), sandbox.stop()]);
      await api.close();
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/**
 * The gateway of a test file, there during its tests. Nothing may be left open, and no promise broken, after each test;
 * after the last where tests build on each other. Options that depend on what else is there are made when that is.
 */
export function useGateway(
  options: GatewayOptions | (() => GatewayOptions) = {},
  settled: 'each' | 'last' | 'never' = 'each',
): TestGateway {
  const gateway = during(() => startGateway(typeof options === 'function' ? options() : options));
  const expectSettled = async (): Promise<void> => {
    await gateway.api.services.chat.drained();
    await gateway.expectSettled();
  };
  if (settled === 'each') afterEach(expectSettled);
  // Hooks of this kind run from the last to the first: before the gateway is closed.
  if (settled === 'last') afterAll(expectSettled);
  return gateway;
}

/** Starts workers with the services of the API; returns a function that stops them. */
async function startWorkers(config: Config, services: Services): Promise<() => Promise<void>> {
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
  url: string;
  apiPort: number;
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

function environment(parts: Parts): Record<string, string> {
  return {
    DATABASE_URL: parts.database.url,
    DATABASE_POOL_MAX: '8',
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    // All test files share a server; their queues must not meet.
    TASK_QUEUE_PREFIX: `${randomUUID().slice(0, 8)}-`,
    API_PORT: String(parts.apiPort),
    PUBLIC_BASE_URL: parts.url,
    STORAGE_DIR: join(parts.directory, 'storage'),
    STORAGE_SECRET: secret(),
    KEY_PEPPER: secret(),
    WEBHOOK_SECRET: secret(),
    WEBHOOK_SIGNING_SECRET: secret(),
    WEBHOOK_RETRY_DELAYS_MS: '200,200,200',
    WEBHOOK_TIMEOUT_MS: '2000',
    ADMIN_API_KEY: secret(),
    FAL_KEY: parts.sandbox.falKey,
    ...sandboxedProviders(parts.sandbox.url),
    SANDBOX_CHAT_OPENAI_URL: `${parts.sandbox.url}/chat-openai/v1`,
    SANDBOX_CHAT_ANTHROPIC_URL: `${parts.sandbox.url}/chat-anthropic`,
    SANDBOX_CHAT_KEY: parts.sandbox.chatKey,
    OPENAI_IMAGES_API_KEY: parts.sandbox.openaiKey,
    ELEVENLABS_API_KEY: parts.sandbox.elevenlabsKey,
    RATE_LIMIT_PER_MINUTE: '100000',
    POLL_RATE_LIMIT_PER_MINUTE: '100000',
    FIRST_CHECK_MAX_MS: '1000',
    OUTCOME_WAIT_MS: '8000',
    LOG_LEVEL: 'silent',
  };
}
