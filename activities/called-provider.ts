/** Functions and services that the activities of provider calls share. */
import { Context } from '@temporalio/activity';
import { assert } from '../domain/errors.ts';
import type { CallOutputs, CallTask } from '../domain/job-plan.ts';
import type { Logger } from '../platform/logger.ts';
import type { Shares } from '../platform/shares.ts';
import type { Inputs } from '../storage/inputs/inputs.ts';
import type { Provider, OperationsApi, ProviderResult } from '../providers/provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import type { CallIds, CallRecords } from '../providers/call-records.ts';
import { storeResult } from '../providers/call-results.ts';
import type { NotificationUrls } from '../providers/notifications.ts';

/** Services that the activities of provider calls use. */
export interface ProviderCallDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  /** Slots of this process for simultaneous calls, by provider. Organizations share them. */
  slots: Map<string, Shares>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  urls: NotificationUrls;
  logger: Logger;
}

/** Returns the job id and the call index of a task. */
export function getCallIds(task: CallTask): CallIds {
  return { jobId: task.jobId, callIndex: task.callIndex };
}

/** Stores a provider's result as the outputs of a call. */
export function storeOutputs(
  { artifacts, logger }: ProviderCallDeps,
  task: CallTask,
  result: ProviderResult,
): Promise<CallOutputs> {
  const signal = Context.current().cancellationSignal;
  return storeResult(result, { artifacts, task, signal, logger });
}

/** Returns the provider of a call. */
export function getProvider(deps: ProviderCallDeps, task: CallTask): Provider {
  const provider = deps.providers.get(task.route.provider);
  assert(provider, `the provider ${task.route.provider} is not configured`);
  return provider;
}

/** Returns the functions with which a call's provider checks and cancels queued operations. */
export function getOperations(deps: ProviderCallDeps, task: CallTask): OperationsApi {
  const { operations } = getProvider(deps, task);
  assert(operations, `the provider ${task.route.provider} does not queue operations`);
  return operations;
}
