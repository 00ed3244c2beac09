/** The workflow's calls to providers: submit, collect, cancel. Each is one attempt; nobody waits here. */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { assert } from '../domain/assert.ts';
import type { Json } from '../domain/json.ts';
import type { Logger } from '../platform/logger.ts';
import { attempt } from './attempt.ts';
import type { CallTask } from '../studio/call-task.ts';
import type { CallOutputs } from '../studio/job-plan.ts';
import { storeResult } from './call-results.ts';
import { jobSettledBefore } from './failures.ts';
import type { CallEars } from './call-ears.ts';
import type { CallSlots } from './call-slots.ts';
import { storageReference, type Inputs } from './inputs.ts';
import type { CallName, CallRecords } from './ledger/call-records.ts';
import { outlastOutage } from './patience.ts';
import type { NotificationUrls } from './providers/notification-url.ts';
import {
  ProviderFailure,
  type Canceled,
  type Operation,
  type Provider,
  type ProviderQueue,
  type ProviderResult,
  type Submitted,
} from './providers/provider.ts';
import type { ArtifactStore } from './storage/artifacts.ts';

/** A call that was taken. */
export type SubmitOutcome =
  | {
      kind: 'operation';
      operation: Operation;
      /** Its end was heard of while the submit lingered, but not collected: look at once. */
      endHeard: boolean;
    }
  | { kind: 'outputs'; outputs: CallOutputs }
  /** Not sent: an operator has paused the provider. */
  | { kind: 'paused' };

/** One look at a call. */
export type CollectOutcome =
  | { kind: 'pending'; progress: Json }
  | { kind: 'outputs'; outputs: CallOutputs };

/** Where the provider is looked for. */
export interface CollectTask extends CallTask {
  operation: Operation;
  /** The handle holds only an id, from a notification: the submit's answer never came. */
  adopted: boolean;
  /** A notification said that it ended. */
  expectDone: boolean;
}

/** What the calls are made with. */
export interface ProviderCallsDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  ears: CallEars;
  slots: CallSlots;
  artifacts: ArtifactStore;
  inputs: Inputs;
  urls: NotificationUrls;
  logger: Logger;
}

/** Activities of the provider queues. */
export interface ProviderCalls {
  submitCall: (task: CallTask) => Promise<SubmitOutcome>;
  /** The same from a workflow task, and only if the provider has room: else fails as `PROVIDER_BUSY`. */
  submitCallAtOnce: (task: CallTask) => Promise<SubmitOutcome>;
  collectCall: (task: CollectTask) => Promise<CollectOutcome>;
  cancelCall: (task: CollectTask) => Promise<Canceled>;
}

/** A look at, or a cancel of, queued work is a short exchange. */
const lookTimeoutMs = 45_000;

/** See `ProviderCalls`. */
export function createProviderCalls(deps: ProviderCallsDeps): ProviderCalls {
  return {
    submitCall: (task) => inSlot(deps.slots.enter(task.route.provider), () => submit(deps, task)),
    async submitCallAtOnce(task) {
      const leave = deps.slots.tryEnter(task.route.provider);
      if (!leave) {
        throw ApplicationFailure.create({
          message: 'no room: the provider’s queue takes it',
          type: 'PROVIDER_BUSY',
          nonRetryable: true,
          category: ApplicationFailureCategory.BENIGN,
        });
      }
      return inSlot(leave, () => submit(deps, task));
    },
    collectCall: (task) => attempt(() => collect(deps, task)),
    cancelCall: (task) =>
      attempt(async () =>
        queueOf(deps, task).cancel(
          await operationOf(deps, task),
          AbortSignal.timeout(lookTimeoutMs),
        ),
      ),
  };
}

/** URLs of own files are signed for the attempt: what the plan carries is no URL. */
async function withReadableInputs(deps: ProviderCallsDeps, task: CallTask): Promise<CallTask> {
  const { source, route } = task;
  const named = source ? { [source.field]: storageReference(source.storageKey) } : {};
  const input = await patiently(() =>
    deps.inputs.sign({ ...route.input, ...named }, task.organizationId),
  );
  return { ...task, route: { ...route, input } };
}

/** Runs an attempt in a place that was taken for it. */
async function inSlot<Outcome>(leave: () => void, run: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await attempt(run);
  } finally {
    leave();
  }
}

async function submit(deps: ProviderCallsDeps, asked: CallTask): Promise<SubmitOutcome> {
  const task = await withReadableInputs(deps, asked);
  const { routeIndex } = task;
  const { provider, operation: endpoint } = task.route;
  const begun = await patiently(() =>
    deps.records.begin({ ...callOf(task), routeIndex, provider, endpoint }),
  );
  if (begun.verdict === 'send') return submitNew(deps, task);
  if (begun.verdict === 'paused') return { kind: 'paused' };
  if (begun.verdict === 'settled') throw jobSettledBefore();
  if (begun.verdict === 'accepted') {
    return { kind: 'operation', operation: begun.operation, endHeard: false };
  }
  if (begun.verdict === 'answered') return { kind: 'outputs', outputs: begun.outputs };
  throw new ProviderFailure('unknown', 'an earlier attempt may have reached the provider');
}

async function submitNew(deps: ProviderCallsDeps, task: CallTask): Promise<SubmitOutcome> {
  const ear = task.lingerMs > 0 ? deps.ears.listen(callOf(task)) : null;
  try {
    const submitted = await send(deps, task);
    if (submitted.kind === 'result') return await keepResult(deps, task, submitted.result);
    ear?.answered();
    const recorded = await deps.records
      .accepted({ ...callOf(task), operation: submitted.operation })
      .then(
        () => true,
        (error: unknown) => {
          // Temporal's history keeps the handle too, so a database that is away must not fail a paid call.
          deps.logger.warn({ error, ...callOf(task) }, 'call.not_recorded');
          return false;
        },
      );
    if (!ear || !recorded) return { ...submitted, endHeard: false };
    ear.recorded();
    const endHeard = await ear.heard(task.lingerMs);
    return endHeard ? await collectAtOnce(deps, task, submitted) : { ...submitted, endHeard };
  } finally {
    ear?.close();
  }
}

/**
 * Collects a quick call's outputs in its submit, which is worth a signal, a timer and a workflow task.
 * Whatever does not work at once is left to the workflow, which knows every failure.
 */
async function collectAtOnce(
  deps: ProviderCallsDeps,
  task: CallTask,
  taken: { kind: 'operation'; operation: Operation },
): Promise<SubmitOutcome> {
  const { operation } = taken;
  try {
    const looked = await collect(deps, { ...task, operation, adopted: false, expectDone: true });
    return looked.kind === 'outputs' ? looked : { ...taken, endHeard: false };
  } catch (error) {
    deps.logger.info({ error, ...callOf(task) }, 'call.not_collected_at_once');
    return { ...taken, endHeard: true };
  }
}

async function keepResult(
  deps: ProviderCallsDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<SubmitOutcome> {
  const outputs = await storeResult(result, {
    artifacts: deps.artifacts,
    task,
    signal: Context.current().cancellationSignal,
    logger: deps.logger,
  });
  try {
    await patiently(() => deps.records.answered({ ...callOf(task), outputs }));
  } catch (error) {
    // The workflow's history keeps the outputs too: what is paid for and stored is not given up.
    deps.logger.warn({ error, ...callOf(task) }, 'call.not_recorded');
  }
  return { kind: 'outputs', outputs };
}

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
    if (error instanceof ProviderFailure && error.kind !== 'unknown') {
      // Left as begun, the call could never be sent again.
      await patiently(() => deps.records.refused(callOf(task)));
    }
    throw error;
  }
}

async function collect(deps: ProviderCallsDeps, task: CollectTask): Promise<CollectOutcome> {
  const checked = await queueOf(deps, task).check(await operationOf(deps, task), {
    signal: AbortSignal.timeout(lookTimeoutMs),
    expectDone: task.expectDone,
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
  const outputs = await storeResult(checked.result, {
    artifacts: deps.artifacts,
    task,
    signal: Context.current().cancellationSignal,
    logger: deps.logger,
  });
  return { kind: 'outputs', outputs };
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

async function operationOf(deps: ProviderCallsDeps, task: CollectTask): Promise<Operation> {
  if (!task.adopted) return task.operation;
  const operation = queueOf(deps, task).adopt(task.route.operation, task.operation.id);
  await patiently(() => deps.records.accepted({ ...callOf(task), operation }));
  return operation;
}

/** Steps around a paid call wait for a database that is away. */
function patiently<Result>(step: () => Promise<Result>): Promise<Result> {
  return outlastOutage(step, Context.current().cancellationSignal);
}

function callOf(task: CallTask): CallName {
  return { jobId: task.jobId, callIndex: task.callIndex };
}
