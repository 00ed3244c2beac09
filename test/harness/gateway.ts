/**
 * Gateways for test files. Files with ordinary settings share one gateway per vitest worker, each
 * with its own organization; `useOwnGateway` is for files that change settings, stop workers or
 * break shared servers.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { Scope } from '../../identity/access.ts';
import { microFromCredits, type CreditsBlock } from '../../domain/credits.ts';
import type { ErrorDetail } from '../../domain/errors.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import { runAudit } from '../../ledger/audit.ts';
import type { AuditScope } from '../../ledger/invariants.ts';
import type { Config } from '../../platform/config.ts';
import { createCaller, type TestCaller } from './callers.ts';
import { during } from './during.ts';
import {
  startFurtherApi,
  startParts,
  type GatewayOptions,
  type RunningGateway,
} from './running-gateway.ts';
import type { AcceptedSubmit } from './sandbox.ts';
import { until, untilHolds } from './until.ts';

type History = Awaited<ReturnType<WorkflowHandle['fetchHistory']>>;

export type { TestCaller };

/** A response with its parsed body. */
export interface Answer<Body = StudioBody> {
  status: number;
  headers: Headers;
  body: Body;
}

/** The fields of Studio responses and errors that tests read; the tests check which are present. */
export interface StudioBody<Data = JobData> {
  success: boolean;
  data: Data;
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

/** Options of a call. */
export interface CallOptions {
  /** The URL of another API of the gateway. */
  base?: string;
  method?: string;
  key?: string | null;
  headers?: Record<string, string>;
  /** Text and forms are sent as they are, other values as JSON. */
  body?: unknown;
}

/** Who acts in `admin`, and why. */
export const operatorAction = { actor: 'olga', reason: 'ticket 7' };

/** A gateway with the callers of a test file. */
export interface TestGateway extends RunningGateway {
  /** The caller whose key `call` uses. */
  caller: TestCaller;
  call: <Body = StudioBody>(path: string, options?: CallOptions) => Promise<Answer<Body>>;
  /** Calls an endpoint of operators; a body has an actor and a reason unless it names others. */
  admin: <Body = StudioBody>(path: string, body?: object, method?: string) => Promise<Answer<Body>>;
  /** Calls an endpoint for its effect: another status than 2xx fails, because what follows would wait in vain. */
  send: (path: string, options?: CallOptions) => Promise<void>;
  /** The same for an endpoint of operators. */
  operate: (path: string, body?: object, method?: string) => Promise<void>;
  /** Creates an organization with credits, by default 100, and a key. */
  newCaller: (options?: CallerOptions) => Promise<TestCaller>;
  /** Creates another key of the user of a key, by default of the caller. */
  newKey: (body?: object, key?: string) => Promise<{ keyId: string; key: string }>;
  /** Starts an asynchronous image job, and returns its id. */
  startImage: (body: { prompt: string; [field: string]: unknown }, key?: string) => Promise<string>;
  /** Waits until a provider has accepted a call of a job, and returns the submit. */
  untilAccepted: (jobId: string) => Promise<AcceptedSubmit>;
  /** Polls a job until it has ended. */
  untilDone: (jobId: string, key?: string) => Promise<Answer>;
  /** Cancels an open job. */
  cancel: (jobId: string, key?: string) => Promise<void>;
  getWorkflow: (jobId: string) => WorkflowHandle;
  /** Returns the events in the history of a job’s workflow. */
  events: (jobId: string) => Promise<NonNullable<History['events']>>;
  /**
   * Checks that the audit finds nothing and that no reservation is open. The audit of `changes` reads the rows since the
   * last one; that of all rows costs more with each caller.
   */
  expectSettled: (scope?: AuditScope) => Promise<void>;
}

interface CallerOptions {
  credits?: number;
  windowCredits?: number;
  scopes?: readonly Scope[];
  allowedModels?: readonly string[];
  expiresAtMs?: number;
}

/** Credits of the first caller. */
interface FirstCaller {
  credits?: number;
}

/** Starts a gateway for one test file, which closes it in `afterAll`. */
export async function startGateway({
  credits,
  ...options
}: GatewayOptions & FirstCaller = {}): Promise<TestGateway> {
  return withCallers(await startParts(options), credits);
}

async function withCallers(parts: RunningGateway, credits = 10_000): Promise<TestGateway> {
  const { api, config, database, url } = parts;
  const getWorkflow = (jobId: string) => api.client.workflow.getHandle(jobWorkflowId(jobId));

  const newCaller = (options: CallerOptions = {}): Promise<TestCaller> => {
    const { credits: granted = 100, windowCredits, ...key } = options;
    return createCaller(api.services.pool, config.KEY_PEPPER, {
      amountMicro: microFromCredits(granted),
      windowLimitMicro: windowCredits === undefined ? null : microFromCredits(windowCredits),
      key,
    });
  };
  const caller = await newCaller({ credits });

  async function call<Body = StudioBody>(
    path: string,
    options: CallOptions = {},
  ): Promise<Answer<Body>> {
    const { body } = options;
    const key = options.key === undefined ? caller.key : options.key;
    const isForm = body instanceof FormData;
    const answer = await fetch(`${options.base ?? url}${path}`, {
      method: options.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key !== null && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body !== undefined && {
        body: typeof body === 'string' || isForm ? body : JSON.stringify(body),
      }),
    });
    const text = await answer.text();
    const json = answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : {};
    return { status: answer.status, headers: answer.headers, body: json };
  }

  const admin: TestGateway['admin'] = (path, body, method) =>
    call(`/api/admin/v1${path}`, {
      key: config.ADMIN_API_KEY,
      ...(method && { method }),
      ...(body && { body: { ...operatorAction, ...body } }),
    });
  async function succeed(path: string, answering: Promise<Answer>): Promise<void> {
    const { status, body } = await answering;
    expect(Math.floor(status / 100), `${path}: ${status} ${JSON.stringify(body)}`).toBe(2);
  }
  const send: TestGateway['send'] = (path, options) => succeed(path, call(path, options));

  return {
    ...parts,
    receiver: parts.receiver.below(`/${caller.organizationId}`),
    caller,
    call,
    admin,
    send,
    operate: (path, ...action) => succeed(path, admin(path, ...action)),
    newCaller,
    async newKey(body = {}, key = caller.key) {
      const response = await call<TestCaller>('/api/v1/api-keys', {
        key,
        body: { name: 'k', ...body },
      });
      expect(response.status, JSON.stringify(response.body)).toBe(200);
      return response.body;
    },
    async startImage(body, key = caller.key) {
      const path = '/api/v1/studio/image/generate';
      const response = await call(path, { key, body: { async: true, ...body } });
      expect(response.status, JSON.stringify(response.body)).toBe(202);
      return response.body.data.jobId;
    },
    untilAccepted: (jobId) => until(async () => (await parts.sandbox.submits({ jobId }))[0]),
    async untilDone(jobId, key = caller.key) {
      for (;;) {
        const answer = await call(`/api/v1/studio/jobs/${jobId}?wait=20`, { key });
        if (answer.status !== 200 || answer.body.data.done) return answer;
      }
    },
    cancel: (jobId, key = caller.key) =>
      send(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST', key }),
    getWorkflow,
    async events(jobId) {
      return (await getWorkflow(jobId).fetchHistory()).events ?? [];
    },
    async expectSettled(scope = 'all') {
      await api.services.chat.waitUntilIdle();
      const { checks } = await runAudit(
        { databaseUrl: database.url, pool: api.services.pool },
        { scope },
      );
      expect(checks.filter(({ subjects }) => subjects.length > 0)).toEqual([]);
      // Files that are being received or stored are in the spool until then.
      await untilHolds(async () =>
        expect(await readdir(join(config.STORAGE_DIR, 'spool'))).toEqual([]),
      );
      // The settlement of a chat can follow its response.
      await untilHolds(async () =>
        expect(await database.query(`SELECT id FROM reservation WHERE state = 'reserved'`)).toEqual(
          [],
        ),
      );
    },
  };
}

/** The time at which a file checks for open reservations and audit findings: after each test and at its end, or at its end. */
type Settled = 'each' | 'last' | 'never';

/**
 * Media of the sandbox: one tiny file of each kind, or files of the requested size, which need more
 * CPU.
 */
type Media = 'tiny' | 'full';

/** The gateway of this vitest worker. A file that leaves it unsettled removes it. */
let shared: Promise<RunningGateway> | null = null;

interface SharedOptions extends FirstCaller {
  settled?: 'each' | 'last';
  media?: Media;
  /**
   * Settings of a separate API for the file, which uses the shared database, sandbox and workers.
   */
  env?: Record<string, string>;
  /** Settings of this API that are smaller than the configuration accepts. */
  unchecked?: Partial<Config>;
}

/**
 * Returns the gateway that the files of a vitest worker share, filled in before the first test. The file has a caller
 * of its own; rows of other files are in the database.
 */
export function useGateway(options: SharedOptions = {}): TestGateway {
  const { credits, settled = 'each', media = 'tiny', unchecked } = options;
  const env = options.env ?? (unchecked && {});
  const gateway = {} as TestGateway;
  beforeAll(async () => {
    const parts = await (shared ??= startParts({ sandboxEnv: { SANDBOX_TINY_MEDIA: '1' } }));
    if (media === 'full') await parts.sandbox.resizeMedia({ tiny: false });
    const own = env ? await startFurtherApi(parts, env, unchecked) : parts;
    Object.assign(gateway, await withCallers(own, credits));
  });
  if (settled === 'each') afterEach(() => gateway.expectSettled('changes'));
  afterAll(async () => {
    await gateway.sandbox.clearFaults();
    if (media === 'full') await gateway.sandbox.resizeMedia({ tiny: true });
    const failure = await gateway.expectSettled().catch((error: unknown) => error);
    await (env ? gateway.close() : gateway.endSpawned());
    if (failure === undefined) return;
    const unsettled = await shared;
    shared = null;
    await unsettled?.close();
    throw failure;
  });
  return gateway;
}

/**
 * Returns a gateway with its own settings for the tests of a file. Options that depend on other
 * resources are computed when those exist.
 */
export function useOwnGateway(
  options: (GatewayOptions & FirstCaller) | (() => GatewayOptions & FirstCaller) = {},
  settled: Settled = 'each',
): TestGateway {
  const gateway = during(() => startGateway(typeof options === 'function' ? options() : options));
  if (settled === 'each') afterEach(() => gateway.expectSettled('changes'));
  // `afterAll` hooks run in reverse order, so this one runs before the gateway is closed.
  if (settled !== 'never') afterAll(() => gateway.expectSettled());
  return gateway;
}
