/**
 * One attempt of submit, store or cancel (activities/), with records in a real Postgres that can be
 * unreachable, and a scripted provider.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createCallPictures } from '../../storage/inputs/call-pictures.ts';
import { createInputs } from '../../storage/inputs/inputs.ts';
import { createCallRecords } from '../../providers/call-records.ts';
import { createInbox, createNotificationUrls } from '../../providers/notifications.ts';
import type { ProviderCallDeps } from '../../activities/attempt.ts';
import { createCallActivities } from '../../activities/index.ts';
import { markVerifying } from '../../activities/mark-verifying.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { Provider, Submission, SubmitResult } from '../../providers/provider.ts';
import { createArtifactStore } from '../../storage/artifacts.ts';
import { createAcceptFile } from '../../storage/picture-conversion.ts';
import { createUploads } from '../../storage/uploads.ts';
import { newId } from '../../domain/ids.ts';
import type { CallInput } from '../../domain/job-plan.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { checkReadiness, databaseChecks } from '../../process/readiness.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { createShares } from '../../platform/shares.ts';
import { during } from '../harness/during.ts';
import { openTestDisk } from '../harness/folders.ts';
import { startPostgresProxy } from '../harness/postgres-proxy.ts';
import { useLedger, type Holder } from '../ledger/use-ledger.ts';

const secret = 'a secret of thirty-two characters or more';
const publicBaseUrl = 'http://gateway.example';
const logger = createLogger('test', 'silent');

const ledgers = useLedger();
const way = during(() => startPostgresProxy(ledgers.database.url));
let pool: DatabasePool;
let holder: Holder;
let deps: Omit<ProviderCallDeps, 'providers' | 'slots'>;

beforeAll(async () => {
  holder = await ledgers.newHolder();
  pool = await openDatabase({ url: way.url, poolMax: 4, logger });
  const outbound = createOutbound({ admittedOrigins: [] });
  const storage = await openTestDisk();
  const limits = { bytesMax: 1_000_000, retentionMs: 60_000 };
  const uploads = createUploads({
    pool,
    storage,
    logger,
    acceptFile: createAcceptFile({ heic: true }),
    ...limits,
  });
  deps = {
    records: createCallRecords(pool),
    artifacts: createArtifactStore({ storage, outbound, marksOutputs: true }),
    callPictures: createCallPictures({ pool, storage }),
    inputs: createInputs({ pool, storage, uploads, outbound, publicBaseUrl }),
    urls: createNotificationUrls({ publicBaseUrl, secret }),
    logger,
  };
});
afterAll(() => pool.end());

/** Makes the call of a job whose credits are reserved. */
async function newTask(): Promise<CallInput> {
  const jobId = newId('job');
  await ledgers.reserve(holder, 1, { id: jobId, hasJob: true });
  const route = {
    provider: 'own',
    taskQueue: 'own',
    providerEndpoint: 'draw',
    input: { prompt: 'a tree' },
    notifies: true,
    submitTimeoutMs: 1000,
  };
  return {
    jobId,
    organizationId: holder.organizationId,
    callIndex: 0,
    routeIndex: 0,
    route,
    output: { medium: 'json', format: null },
    meter: 'artifact',
    quantity: 1,
    source: null,
    submitAttemptsMax: 3,
  };
}

const taken: SubmitResult = { kind: 'operation', operation: { id: 'op-1' } };
const result = { outputs: [], data: 1 };
const withResult: SubmitResult = { kind: 'result', result, providerRequestId: 'req_1' };
const pending = {
  kind: 'pending',
  progress: { state: 'generating', queuePosition: null },
} as const;

/** Returns the activities of a process with four slots; `answer` responds to submits. */
function processWith(answer: () => Promise<SubmitResult> = async () => taken) {
  /** Submissions that the provider received. */
  const sent: Submission[] = [];
  const provider: Provider = {
    name: 'own',
    async submit(submission) {
      sent.push(submission);
      return answer();
    },
    operations: {
      check: async () => pending,
      cancel: async () => 'requested',
      adopt: (providerEndpoint, id) => ({ id, providerEndpoint }),
      verify: async () => ({ operationId: 'nobody asks' }),
    },
  };
  const ownSlots = createShares(4);
  const slots = new Map([['own', ownSlots]]);
  const providers = new Map([[provider.name, provider]]);
  return { calls: createCallActivities({ ...deps, providers, slots }), ownSlots, sent };
}

/** Returns such a process whose provider responds when the test resolves `answered`. */
function waitingProcess() {
  const answered = Promise.withResolvers<void>();
  return { answered, ...processWith(() => answered.promise.then(() => taken)) };
}

/** Logger without the SDK's warnings of failed attempts, which are expected. */
const quiet = { logger: new DefaultLogger('ERROR') };
const inTask = (attempt = 1) => new MockActivityEnvironment({ isLocal: true, attempt }, quiet);
const fromQueue = (attempt = 1, activityType = 'submit') =>
  new MockActivityEnvironment({ isLocal: false, attempt, activityType }, quiet);

async function readState({ jobId }: CallInput): Promise<string | undefined> {
  const rows = await ledgers.query<{ state: string }>(
    'SELECT state FROM provider_call WHERE job_id = $1',
    [jobId],
  );
  return rows[0]?.state;
}

describe('a submit', () => {
  it('is recorded before it is sent, and sent once', async () => {
    const task = await newTask();
    let before: string | undefined;
    const { calls, sent } = processWith(async () => {
      before = await readState(task);
      return taken;
    });
    expect(await inTask().run(calls.submit, task)).toEqual(taken);
    expect(before).toBe('begun');
    expect(await fromQueue().run(calls.submit, task)).toEqual(taken);
    expect(sent).toEqual([
      expect.objectContaining({
        providerEndpoint: 'draw',
        input: { prompt: 'a tree' },
        idempotencyKey: `${task.jobId}:0`,
        notificationUrl: expect.stringContaining(`/hooks/own/${task.jobId}/0/`),
      }),
    ]);
  });

  it('waits for the record of another submit that is in flight', async () => {
    const task = await newTask();
    const first = waitingProcess();
    const second = processWith();
    const inTheAir = inTask().run(first.calls.submit, task);
    await expect.poll(() => readState(task)).toBe('begun');
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const waiting = fromQueue().run(second.calls.submit, task);
    // The submit takes 24 seconds, but reports every eight seconds that it still runs.
    for (let report = 0; report < 3; report += 1) {
      await sleep(700);
      await deps.records.markRunning(task);
      vi.advanceTimersByTime(8000);
    }
    first.answered.resolve();
    expect(await Promise.all([inTheAir, waiting])).toEqual([taken, taken]);
    expect(second.sent).toEqual([]);
  });

  it('stops waiting for another submit when it is canceled', async () => {
    const task = await newTask();
    await deps.records.begin({ ...task, provider: 'own', providerEndpoint: 'draw' });
    const { calls, sent } = processWith();
    const environment = fromQueue();
    const waiting = environment.run(calls.submit, task);
    setTimeout(() => environment.cancel(), 200);
    await expect(waiting).rejects.toThrow(/abort|cancel/i);
    expect(sent).toEqual([]);
  });

  it('without a response adopts the id from the provider notification', async () => {
    const task = await newTask();
    const { calls, sent } = processWith(async () => {
      throw new ProviderFailure('unknown', 'the connection broke');
    });
    for (const environment of [inTask(), fromQueue()]) {
      await expect(environment.run(calls.submit, task)).rejects.toMatchObject({
        type: 'OUTCOME_UNKNOWN',
        nonRetryable: true,
      });
    }
    const { jobId, callIndex } = task;
    await createInbox(pool).add({ provider: 'own', jobId, callIndex, operationId: 'op-7' });
    expect(await inTask().run(calls.submit, task)).toEqual({
      kind: 'operation',
      operation: { id: 'op-7', providerEndpoint: 'draw' },
    });
    expect(await readState(task)).toBe('accepted');
    expect(sent).toHaveLength(1);
  });

  it('in flight is adopted once it is recorded, and a call that was not sent is not adopted', async () => {
    const task = await newTask();
    const { answered, calls, sent } = waitingProcess();
    expect(await fromQueue().run(calls.adopt, task)).toEqual({ kind: 'not_sent' });
    const inTheAir = inTask().run(calls.submit, task);
    await expect.poll(() => readState(task)).toBe('begun');
    const adopting = fromQueue().run(calls.adopt, task);
    await sleep(700);
    answered.resolve();
    expect(await Promise.all([inTheAir, adopting])).toEqual([taken, taken]);
    expect(sent).toHaveLength(1);
  });

  it('that was rejected is not adopted, because it may be sent again', async () => {
    const task = await newTask();
    const { calls } = processWith(async () => {
      throw new ProviderFailure('not_accepted', 'not now');
    });
    await expect(inTask().run(calls.submit, task)).rejects.toThrow('not now');
    expect(await fromQueue().run(calls.adopt, task)).toEqual({ kind: 'not_sent' });
  });

  it('to a paused provider waits, and is recorded as waiting but not as begun', async () => {
    const task = await newTask();
    const { calls, sent } = processWith();
    await ledgers.query(`INSERT INTO provider_pause VALUES ('own', 'olga', 'test')`);
    await expect(fromQueue().run(calls.awaitResume, [task])).rejects.toMatchObject({
      type: 'PROVIDER_PAUSED',
      nonRetryable: false,
    });
    expect(await readState(task)).toBe('waiting');
    expect(await inTask().run(calls.submit, task)).toEqual({ kind: 'paused' });
    await ledgers.query('DELETE FROM provider_pause');
    await fromQueue().run(calls.awaitResume, [task]);
    expect(await readState(task)).toBe('waiting');
    expect(sent).toEqual([]);
    expect(await inTask().run(calls.submit, task)).toEqual(taken);
  });

  it('for a settled job is not sent', async () => {
    const task = await newTask();
    await ledgers.settle(holder, task.jobId, null, { hasJob: true });
    const { calls, sent } = processWith();
    await expect(inTask().run(calls.submit, task)).rejects.toMatchObject({ type: 'JOB_LOST' });
    expect(sent).toEqual([]);
    await markVerifying({ pool }, task.jobId);
    const row = 'SELECT verifying FROM job WHERE id = $1';
    expect(await ledgers.database.query(row, [task.jobId])).toEqual([{ verifying: false }]);
  });

  it('without a slot fails and is tried again, but not a check of an accepted call', async () => {
    const task = await newTask();
    const { calls, ownSlots, sent } = processWith();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const own = [ownSlots.take(task.organizationId), ownSlots.take(task.organizationId)];
    const busy = { type: 'PROVIDER_BUSY', nonRetryable: false };
    await expect(inTask().run(calls.submit, task)).rejects.toMatchObject(busy);
    await expect(fromQueue().run(calls.submit, task)).rejects.toMatchObject({
      ...busy,
      nextRetryDelay: expect.any(Number),
    });
    expect(sent).toEqual([]);
    const operation = { id: 'taken', providerEndpoint: task.route.providerEndpoint };
    const check = fromQueue(1, 'check').run(calls.check, { ...task, operation });
    expect(await check).toEqual(pending);
    // The organization holds half of the slots; another one gets one of the others.
    expect(ownSlots.take('another')).not.toBeNull();
    const waiting = fromQueue().run(calls.submit, task);
    own[0]?.();
    expect(await waiting).toEqual(taken);
    own[1]?.();
    // All attempts have returned their slots, and none still reports that it is running.
    expect(ownSlots.countHeld(task.organizationId)).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('counts as not accepted only when it was sent', async () => {
    const task = await newTask();
    const { calls } = processWith(async () => {
      throw new ProviderFailure('not_accepted', 'not now');
    });
    // The earlier attempts found no slot.
    const late = fromQueue(task.submitAttemptsMax + 3).run(calls.submit, task);
    await expect(late).rejects.toMatchObject({ nonRetryable: false });
  });

  it('is repeated after rejections until the queue has used its attempts', async () => {
    const task = await newTask();
    const { calls, sent } = processWith(async () => {
      throw new ProviderFailure('not_accepted', 'not now', { retryAfterMs: 40 });
    });
    const rejected = (nonRetryable: boolean) => ({ type: 'PROVIDER_NOT_ACCEPTED', nonRetryable });
    // The local attempt is not counted as an attempt of the task queue.
    await expect(inTask(task.submitAttemptsMax).run(calls.submit, task)).rejects.toMatchObject({
      ...rejected(false),
      details: [{ retryAfterMs: 40 }],
      nextRetryDelay: 40,
    });
    for (const attempt of [1, 2, 3]) {
      await expect(fromQueue(attempt).run(calls.submit, task)).rejects.toMatchObject(
        rejected(attempt === 3),
      );
    }
    expect(sent).toHaveLength(4);
    expect(await readState(task)).toBe('not_accepted');
  });
});

describe('while Postgres is unreachable', () => {
  it.each<[string, () => Promise<SubmitResult>, string]>([
    ['taken', async () => taken, 'accepted'],
    ['answered', async () => withResult, 'answered'],
    [
      'not accepted',
      () => Promise.reject(new ProviderFailure('misconfigured', 'never')),
      'not_accepted',
    ],
    ['unknown', () => Promise.reject(new Error('the connection broke')), 'unknown'],
  ])('a call that was %s is recorded once Postgres is back', async (_how, answer, state) => {
    const task = await newTask();
    const { calls } = processWith(async () => {
      way.cut();
      setTimeout(() => void way.mend(), 1200);
      return answer();
    });
    await inTask()
      .run(calls.submit, task)
      .catch(() => {});
    expect(await readState(task)).toBe(state);
  });

  it.each(['submit', 'adopt'] as const)(
    'a call that was recorded and never sent may be sent by another process (%s)',
    async (activity) => {
      const task = await newTask();
      const [first, second] = [processWith(), processWith()];
      const begun = way.dropResponse('call_begin');
      const failed = expect(inTask().run(first.calls.submit, task)).rejects.toThrow();
      await begun;
      await expect.poll(() => readState(task)).toBe('begun');
      way.cut();
      await failed;
      expect(await readState(task)).toBe('begun');
      await way.mend();
      const expected = activity === 'submit' ? taken : { kind: 'not_sent' };
      expect(await fromQueue().run(second.calls[activity], task)).toEqual(expected);
      expect(await fromQueue().run(second.calls.submit, task)).toEqual(taken);
      expect([first.sent.length, second.sent.length]).toEqual([0, 1]);
      // The late record of the first process changes nothing of the second.
      await sleep(3000);
      expect(await readState(task)).toBe('accepted');
    },
  );

  it('a check of a running call still reports that it is running', async () => {
    const task = await newTask();
    const { calls } = processWith();
    await inTask().run(calls.submit, task);
    way.cut();
    setTimeout(() => void way.mend(), 500);
    const operation = { id: 'op-1' };
    expect(await fromQueue().run(calls.check, { ...task, operation })).toEqual(pending);
    const readiness = { required: databaseChecks(pool), optional: {} };
    await expect.poll(async () => (await checkReadiness(readiness)).ready).toBe(true);
  });
});
