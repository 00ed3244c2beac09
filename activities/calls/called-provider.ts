/** What attempts at provider calls share: their services, and the provider of a call. */
import { Context } from '@temporalio/activity';
import { assert } from '../../domain/errors.ts';
import type { CallOutputs, CallTask } from '../../jobs/job-plan.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Inputs } from '../inputs/inputs.ts';
import type { Provider, ProviderQueue, ProviderResult } from '../providers/provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import type { CallName, CallRecords } from './call-records.ts';
import { storeResult } from './call-results.ts';
import type { NotificationUrls } from './notifications.ts';

/** Services that provider calls use. */
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

/** Names the call of a task. */
export function callOf(task: CallTask): CallName {
  return { jobId: task.jobId, callIndex: task.callIndex };
}

/** Stores a provider's result as the outputs of a call. */
export function stored(
  { artifacts, logger }: ProviderCallsDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<CallOutputs> {
  const signal = Context.current().cancellationSignal;
  return storeResult(result, { artifacts, task, signal, logger });
}

/** The provider of a call. */
export function providerOf(deps: ProviderCallsDeps, task: CallTask): Provider {
  const provider = deps.providers.get(task.route.provider);
  assert(provider, `the provider ${task.route.provider} exists`);
  return provider;
}

/** The half of the provider that queues work. */
export function queueOf(deps: ProviderCallsDeps, task: CallTask): ProviderQueue {
  const { queue } = providerOf(deps, task);
  assert(queue, `the provider ${task.route.provider} queues work`);
  return queue;
}
