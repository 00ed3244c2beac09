/** The workflow's calls to providers: submit, collect, cancel. Each is one attempt; nobody waits here. */
import { Context } from '@temporalio/activity';
import { assert } from '../domain/assert.ts';
import type { Json } from '../domain/json.ts';
import type { Logger } from '../platform/logger.ts';
import type { CallOutputs, CallRoute, OutputSpec } from '../studio/job-plan.ts';
import { toApplicationFailure } from './failures.ts';
import type { CallRecords } from './ledger/call-records.ts';
import type { NotificationUrls } from './providers/notification-url.ts';
import {
  ProviderFailure,
  type Canceled,
  type Operation,
  type Provider,
  type ProviderResult,
} from './providers/provider.ts';
import type { ArtifactStore } from './storage/artifacts.ts';

/** One call, as its activities need it. */
export interface CallTask {
  jobId: string;
  organizationId: string;
  callIndex: number;
  routeIndex: number;
  route: CallRoute;
  output: OutputSpec;
  quantity: number;
}

/** A call that was taken. */
export type SubmitOutcome =
  | { kind: 'operation'; operation: Operation }
  | { kind: 'outputs'; outputs: CallOutputs };

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

interface ProviderCallsDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  artifacts: ArtifactStore;
  urls: NotificationUrls;
  logger: Logger;
}

/** Activities of the provider queues. */
export interface ProviderCalls {
  submitCall: (task: CallTask) => Promise<SubmitOutcome>;
  collectCall: (task: CollectTask) => Promise<CollectOutcome>;
  cancelCall: (task: CollectTask) => Promise<Canceled>;
}

/** A single HTTP exchange of a queued provider; longer ones come with their own adapters. */
const exchangeTimeoutMs = 45_000;
const heartbeatIntervalMs = 4000;

/** See `ProviderCalls`. */
export function createProviderCalls(deps: ProviderCallsDeps): ProviderCalls {
  function providerOf(task: CallTask): Provider {
    const provider = deps.providers.get(task.route.provider);
    assert(provider, `the provider ${task.route.provider} exists`);
    return provider;
  }

  async function operationOf(task: CollectTask): Promise<Operation> {
    if (!task.adopted) return task.operation;
    const operation = providerOf(task).adopt(task.route.operation, task.operation.id);
    await deps.records.accepted({ ...callOf(task), operation });
    return operation;
  }

  async function storeResult(task: CallTask, result: ProviderResult): Promise<CallOutputs> {
    const wanted = result.outputs.slice(0, task.quantity);
    const stored = await Promise.allSettled(
      wanted.map((output, outputIndex) =>
        deps.artifacts.store(output, {
          output: task.output,
          place: { ...placeOf(task), outputIndex },
          signal: Context.current().cancellationSignal,
        }),
      ),
    );
    const failures = stored.filter((entry) => entry.status === 'rejected');
    const artifacts = stored.filter((entry) => entry.status === 'fulfilled');
    // Unusable pictures are not paid for; what may work on another attempt is tried again as a whole.
    const hopeless = failures.every(
      (entry) => entry.reason instanceof ProviderFailure && entry.reason.kind === 'failed',
    );
    if (failures.length > 0 && (!hopeless || artifacts.length === 0)) throw failures[0]?.reason;
    const short = artifacts.length < task.quantity;
    return {
      callIndex: task.callIndex,
      artifacts: artifacts.map((entry) => entry.value),
      data: result.data,
      error: short
        ? { code: 'PROVIDER_ERROR', message: 'the provider delivered fewer outputs than asked for' }
        : null,
    };
  }

  async function submitNew(task: CallTask): Promise<SubmitOutcome> {
    const provider = providerOf(task);
    let submitted;
    try {
      submitted = await provider.submit({
        operation: task.route.operation,
        input: task.route.input,
        notificationUrl: deps.urls.urlFor({ ...callOf(task), provider: provider.name }),
        idempotencyKey: `${task.jobId}:${task.callIndex}`,
        // Not the activity's own signal: a draining worker must not turn a call into a riddle.
        signal: AbortSignal.timeout(exchangeTimeoutMs),
      });
    } catch (error) {
      if (error instanceof ProviderFailure && error.kind !== 'unknown') {
        await deps.records.refused(callOf(task));
      }
      throw error;
    }
    if (submitted.kind === 'operation') {
      // Temporal's history keeps the handle too, so a database that is away must not fail a paid call.
      await deps.records
        .accepted({ ...callOf(task), operation: submitted.operation })
        .catch((error: unknown) =>
          deps.logger.warn({ error, ...callOf(task) }, 'call.not_recorded'),
        );
      return submitted;
    }
    const outputs = await storeResult(task, submitted.result);
    await deps.records.answered({ ...callOf(task), outputs });
    return { kind: 'outputs', outputs };
  }

  return {
    submitCall: (task) =>
      attempt(async () => {
        const begun = await deps.records.begin({
          ...callOf(task),
          routeIndex: task.routeIndex,
          provider: task.route.provider,
        });
        switch (begun.verdict) {
          case 'send':
            return submitNew(task);
          case 'accepted':
            return { kind: 'operation', operation: begun.operation };
          case 'answered':
            return { kind: 'outputs', outputs: begun.outputs };
          case 'unknown':
            throw new ProviderFailure(
              'unknown',
              'an earlier attempt may have reached the provider',
            );
        }
      }),

    collectCall: (task) =>
      attempt(async () => {
        const checked = await providerOf(task).check(await operationOf(task), {
          signal: AbortSignal.timeout(exchangeTimeoutMs),
          expectDone: task.expectDone,
        });
        switch (checked.kind) {
          case 'failed':
            throw checked.failure;
          case 'pending':
            await deps.records.progressed({ ...callOf(task), progress: checked.progress });
            return checked;
          case 'result':
            return { kind: 'outputs', outputs: await storeResult(task, checked.result) };
        }
      }),

    cancelCall: (task) =>
      attempt(async () =>
        providerOf(task).cancel(await operationOf(task), AbortSignal.timeout(exchangeTimeoutMs)),
      ),
  };
}

function callOf(task: CallTask): { jobId: string; callIndex: number } {
  return { jobId: task.jobId, callIndex: task.callIndex };
}

function placeOf(task: CallTask): { organizationId: string; jobId: string; callIndex: number } {
  return { organizationId: task.organizationId, ...callOf(task) };
}

/** Runs one attempt with a heartbeat, and turns its failure into one that the workflow understands. */
async function attempt<Outcome>(run: () => Promise<Outcome>): Promise<Outcome> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), heartbeatIntervalMs);
  try {
    return await run();
  } catch (error) {
    throw toApplicationFailure(error);
  } finally {
    clearInterval(beat);
  }
}
