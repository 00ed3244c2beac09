/** Services of the activities that call providers, and the provider of a call. */
import { Context } from '@temporalio/activity';
import { assert } from '../domain/errors.ts';
import type { CallOutputs, CallTask } from '../jobs/job-plan.ts';
import type { Logger } from '../platform/logger.ts';
import type { Inputs } from '../storage/inputs/inputs.ts';
import type { Provider, ProviderQueue, ProviderResult } from '../providers/provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import type { CallName, CallRecords } from '../providers/call-records.ts';
import { storeResult } from '../providers/call-results.ts';
import type { NotificationUrls } from '../providers/notification-urls.ts';

/** Services that provider calls use. */
export interface ProviderCallDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  /**
   * Number of free slots by provider: calls that this process may send in addition to its running
   * calls.
   */
  slots: Map<string, number>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  urls: NotificationUrls;
  logger: Logger;
}

/** Returns the key of a task's call. */
export function callOf(task: CallTask): CallName {
  return { jobId: task.jobId, callIndex: task.callIndex };
}

/** Stores a provider's result as the outputs of a call. */
export function stored(
  { artifacts, logger }: ProviderCallDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<CallOutputs> {
  const signal = Context.current().cancellationSignal;
  return storeResult(result, { artifacts, task, signal, logger });
}

/** Returns the provider of a call. */
export function providerOf(deps: ProviderCallDeps, task: CallTask): Provider {
  const provider = deps.providers.get(task.route.provider);
  assert(provider, `the provider ${task.route.provider} exists`);
  return provider;
}

/** Returns the queue of a call's provider. */
export function queueOf(deps: ProviderCallDeps, task: CallTask): ProviderQueue {
  const { queue } = providerOf(deps, task);
  assert(queue, `the provider ${task.route.provider} queues work`);
  return queue;
}
