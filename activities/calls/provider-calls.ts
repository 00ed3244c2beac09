/**
 * The workflow's calls to providers: submit, store, cancel. Each is one attempt; only a submit that finds
 * another one of its call in the air waits, for that one's record.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import pRetry, { type Options } from 'p-retry';
import { assert } from '../../domain/errors.ts';
import type { Json } from '../../domain/json.ts';
import { isDatabaseAway } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { attempt, jobSettledBefore } from './attempt.ts';
import type { CallTask } from '../../jobs/job-plan.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import { storeResult } from './call-results.ts';
import { storageReference, type Inputs } from '../inputs/inputs.ts';
import type { BeginVerdict, CallName, CallRecords } from './call-records.ts';
import type { NotificationUrls } from './notifications.ts';
import {
  ProviderFailure,
  type Canceled,
  type FailureKind,
  type Operation,
  type Provider,
  type ProviderQueue,
  type ProviderResult,
  type Submitted,
} from '../providers/provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';

/** A call that was taken. */
export type SubmitOutcome =
  | { kind: 'operation'; operation: Operation }
  | { kind: 'outputs'; outputs: CallOutputs }
  /** Not sent: an operator has paused the provider. */
  | { kind: 'paused' };

/** What a status check found. */
export type StoreOutcome =
  | { kind: 'pending'; progress: Json }
  | { kind: 'outputs'; outputs: CallOutputs };

/** A call whose provider works on it. */
export interface AcceptedCall extends CallTask {
  operation: Operation;
}

/** A status check; `notified`: a notification said that the call ended. */
export interface StoreTask extends AcceptedCall {
  notified: boolean;
}

/** What the calls are made with. */
export interface ProviderCallsDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  /** Provider → calls that this process may send it beside those on their way. */
  places: Map<string, number>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  urls: NotificationUrls;
  logger: Logger;
}

/** A status check, or a cancel, of queued work is a short exchange. */
const checkTimeoutMs = 45_000;
/** How often an attempt that sends a call says that it lives, and how long a silent one is waited for. */
const touchIntervalMs = 4000;
const silenceMaxMs = 15_000;
const recordPollMs = 500;

/**
 * Activities of the provider queues. In a workflow task they run only while this process has room for the
 * provider: else they fail as `PROVIDER_BUSY`, and the queue has them.
 */
export function createProviderCalls(deps: ProviderCallsDeps) {
  return {
    submit: (task: CallTask): Promise<SubmitOutcome> =>
      inRoom(deps, task, () => submit(deps, task)),
    /** Asks the provider how far the call is; stores its outputs when it has ended. */
    store: (task: StoreTask): Promise<StoreOutcome> => inRoom(deps, task, () => store(deps, task)),
    cancel: (task: AcceptedCall): Promise<Canceled> =>
      inRoom(deps, task, () =>
        queueOf(deps, task).cancel(task.operation, AbortSignal.timeout(checkTimeoutMs)),
      ),
  };
}
export type ProviderCalls = ReturnType<typeof createProviderCalls>;

/**
 * Runs an attempt in a place of its provider. The provider's task queue counts for itself, so what it hands over has
 * one; a call from a workflow task must find a place free, or it goes to the queue, where waiting is fair.
 */
async function inRoom<Outcome>(
  { places }: ProviderCallsDeps,
  { route: { provider }, refusalsMax }: CallTask,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const free = (): number => places.get(provider) ?? 0;
  if (Context.current().info.isLocal && free() <= 0) {
    throw ApplicationFailure.create({
      message: 'no room: the provider’s queue takes it',
      type: 'PROVIDER_BUSY',
      category: ApplicationFailureCategory.BENIGN,
    });
  }
  places.set(provider, free() - 1);
  try {
    return await attempt(run, refusalsMax);
  } finally {
    places.set(provider, free() + 1);
  }
}

/** URLs of own files are signed for the attempt: what the plan carries is no URL. */
async function withReadableInput(deps: ProviderCallsDeps, task: CallTask): Promise<CallTask> {
  const { source, route, organizationId } = task;
  const named = source ? { [source.field]: storageReference(source.storageKey) } : {};
  const input = await deps.inputs.sign({ ...route.input, ...named }, organizationId);
  return { ...task, route: { ...route, input } };
}

async function submit(deps: ProviderCallsDeps, asked: CallTask): Promise<SubmitOutcome> {
  const task = await withReadableInput(deps, asked);
  const begun = await begin(deps, task);
  if (begun.verdict === 'send') return submitNew(deps, task);
  if (begun.verdict === 'paused') return { kind: 'paused' };
  if (begun.verdict === 'settled') throw jobSettledBefore();
  if (begun.verdict === 'accepted') return { kind: 'operation', operation: begun.operation };
  if (begun.verdict === 'answered') return { kind: 'outputs', outputs: begun.outputs };
  if (begun.notifiedId === null) {
    throw new ProviderFailure('unknown', 'an earlier attempt may have reached the provider');
  }
  const operation = queueOf(deps, task).adopt(task.route.operation, begun.notifiedId);
  await deps.records.accepted({ ...callOf(task), operation });
  return { kind: 'operation', operation };
}

/** Whether the call may be sent; waits for another attempt that sends it, as long as that one lives. */
async function begin(deps: ProviderCallsDeps, task: CallTask): Promise<BeginVerdict> {
  const { routeIndex, route } = task;
  const { provider, operation: endpoint } = route;
  let touchedAtMs = 0;
  let seenAtMs = 0;
  for (;;) {
    const begun = await deps.records.begin({ ...callOf(task), routeIndex, provider, endpoint });
    if (begun.verdict !== 'begun' || begun.notifiedId !== null) return begun;
    // Its silence counts from here on: while the database was away it could not say anything.
    if (begun.touchedAtMs !== touchedAtMs) seenAtMs = performance.now();
    ({ touchedAtMs } = begun);
    if (performance.now() - seenAtMs > silenceMaxMs) return begun;
    await sleep(recordPollMs, undefined, { signal: Context.current().cancellationSignal });
  }
}

async function submitNew(deps: ProviderCallsDeps, task: CallTask): Promise<SubmitOutcome> {
  const touching = setInterval(() => {
    deps.records.touched(callOf(task)).catch(() => {});
  }, touchIntervalMs);
  try {
    const submitted = await send(deps, task);
    if (submitted.kind === 'result') return await keepResult(deps, task, submitted.result);
    const { operation } = submitted;
    await afterSend(deps, task, (call) => deps.records.accepted({ ...call, operation }));
    return submitted;
  } finally {
    clearInterval(touching);
  }
}

async function keepResult(
  deps: ProviderCallsDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<SubmitOutcome> {
  try {
    const outputs = await stored(deps, task, result);
    await afterSend(deps, task, (call) => deps.records.answered({ ...call, outputs }));
    return { kind: 'outputs', outputs };
  } catch (error) {
    // The bytes are gone with this attempt, and the provider was paid for them.
    await afterSend(deps, task, deps.records.unknown);
    throw error;
  }
}

/** Failures after which a call is never sent again, whoever repeats the attempt. */
const mayHaveBeenTaken: ReadonlySet<FailureKind> = new Set(['unknown', 'failed']);

async function send(deps: ProviderCallsDeps, task: CallTask): Promise<Submitted> {
  const provider = providerOf(deps, task);
  try {
    return await provider.submit({
      operation: task.route.operation,
      input: task.route.input,
      notificationUrl: deps.urls.urlFor({ ...callOf(task), provider: provider.name }),
      idempotencyKey: `${task.jobId}:${task.callIndex}`,
      // Not the activity's own signal: a draining worker must not turn a call into a riddle.
      signal: AbortSignal.timeout(task.route.submitTimeoutMs),
    });
  } catch (error) {
    // Left as begun, the call could never be sent again, and who waits for its record waits in vain.
    const wasTaken = !(error instanceof ProviderFailure) || mayHaveBeenTaken.has(error.kind);
    await afterSend(deps, task, wasTaken ? deps.records.unknown : deps.records.refused);
    throw error;
  }
}

async function store(deps: ProviderCallsDeps, task: StoreTask): Promise<StoreOutcome> {
  const checked = await queueOf(deps, task).check(task.operation, {
    signal: AbortSignal.timeout(checkTimeoutMs),
    expectDone: task.notified,
  });
  if (checked.kind === 'failed') throw checked.failure;
  if (checked.kind === 'pending') {
    await deps.records
      .progressed({ ...callOf(task), progress: checked.progress })
      .catch((error: unknown) =>
        deps.logger.info({ error, ...callOf(task) }, 'call.progress_not_recorded'),
      );
    return checked;
  }
  return { kind: 'outputs', outputs: await stored(deps, task, checked.result) };
}

function stored(
  { artifacts, logger }: ProviderCallsDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<CallOutputs> {
  const signal = Context.current().cancellationSignal;
  return storeResult(result, { artifacts, task, signal, logger });
}

function providerOf(deps: ProviderCallsDeps, task: CallTask): Provider {
  const provider = deps.providers.get(task.route.provider);
  assert(provider, `the provider ${task.route.provider} exists`);
  return provider;
}

function queueOf(deps: ProviderCallsDeps, task: CallTask): ProviderQueue {
  const { queue } = providerOf(deps, task);
  assert(queue, `the provider ${task.route.provider} queues work`);
  return queue;
}

/** Longer than any restart of Postgres; a longer outage is left to the retries of the workflow. */
const whileDatabaseIsAway: Options = {
  retries: Infinity,
  minTimeout: 100,
  maxTimeout: 2000,
  maxRetryTime: 120_000,
  shouldRetry: ({ error }) => isDatabaseAway(error),
};

/**
 * Writes down what came of a call that was sent, for as long as a database may be away, and whether or not
 * anybody still waits for this attempt. What cannot be written is not lost with it: the workflow's history
 * has it too, or the provider's notification names the call.
 */
async function afterSend(
  { logger }: ProviderCallsDeps,
  task: CallTask,
  write: (call: CallName) => Promise<void>,
): Promise<void> {
  await pRetry(() => write(callOf(task)), whileDatabaseIsAway).catch((error: unknown) => {
    logger.warn({ error, ...callOf(task) }, 'call.not_recorded');
  });
}

function callOf(task: CallTask): CallName {
  return { jobId: task.jobId, callIndex: task.callIndex };
}
