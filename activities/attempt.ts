/** Runs one attempt of an activity: occupies a slot of the provider and sends heartbeats. */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { assert } from '../domain/errors.ts';
import type { CallInput, CallOutputs } from '../domain/job-plan.ts';
import type { Shares } from '../platform/shares.ts';
import { toApplicationFailure } from './activity-failures.ts';
import type { Logger } from '../platform/logger.ts';
import type { CallPictures } from '../storage/inputs/call-pictures.ts';
import type { Inputs } from '../storage/inputs/inputs.ts';
import type { Provider, OperationsApi, ProviderResult } from '../providers/provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import type { CallIds, CallRecords } from '../providers/call-records.ts';
import { storeResult } from '../providers/call-results.ts';
import type { NotificationUrls } from '../providers/notifications.ts';

const heartbeatIntervalMs = 4000;

/**
 * Maximum time that a submit from the task queue waits for a slot, in milliseconds. It is short,
 * because a submit that waits here does not notice that its job is canceled.
 */
const slotWaitMs = 2000;
/** Minimum delay before a submit without a slot is tried again, in milliseconds. */
const busyDelayMs = 1000;

/**
 * Runs one attempt in a slot of its provider. An organization holds at most as many slots as stay
 * free. A submit without a slot fails with `PROVIDER_BUSY` and is tried again: a local activity at
 * once, because the task queue orders the submits of organizations fairly, others after a short
 * wait. Checks, results and cancellations of accepted calls do not wait here for submits.
 * @throws ApplicationFailure
 */
export async function attemptInSlot<Outcome>(
  slots: Map<string, Shares>,
  task: CallInput,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { submitAttemptsMax } = task;
  const { provider, submitTimeoutMs } = task.route;
  const { activityType } = Context.current().info;
  const release = await takeSlot(slots, task);
  try {
    const timeLimit =
      activityType === 'submit' ? { providerLimitSeconds: submitTimeoutMs / 1000 } : {};
    return await attempt(run, { submitAttemptsMax, detail: { provider, ...timeLimit } });
  } finally {
    release();
  }
}

/** Takes a slot, and returns the function that releases it. @throws ApplicationFailure */
async function takeSlot(
  slots: Map<string, Shares>,
  { organizationId, route: { provider } }: CallInput,
): Promise<() => void> {
  const { info } = Context.current();
  const providerSlots = slots.get(provider);
  assert(providerSlots, `the provider ${provider} has no slots`);
  if (!info.isLocal && info.activityType !== 'submit') {
    const slot = providerSlots.open(organizationId);
    slot.force(1);
    return slot.release;
  }
  return enterSlot(providerSlots, organizationId);
}

/**
 * Takes one of the slots that organizations share, and returns the function that releases it.
 * @throws ApplicationFailure PROVIDER_BUSY if the organization has its share of them
 */
export async function enterSlot(slots: Shares, organizationId: string): Promise<() => void> {
  const { info, cancellationSignal } = Context.current();
  const release = info.isLocal
    ? slots.take(organizationId)
    : await slots.enter(organizationId, slotWaitMs);
  if (release && !cancellationSignal.aborted) return release;
  release?.();
  throw ApplicationFailure.create({
    message: 'no request was sent: the organization has its share of the slots',
    type: 'PROVIDER_BUSY',
    category: ApplicationFailureCategory.BENIGN,
    // Not all at the same time.
    ...(!info.isLocal && { nextRetryDelay: busyDelayMs * (1 + Math.random()) }),
  });
}

/** Options of an attempt. */
interface AttemptOptions {
  /** Defaults to no maximum (`CallInput.submitAttemptsMax`). */
  submitAttemptsMax?: number;
  /**
   * Details of the heartbeats, which the Temporal UI shows while the activity is pending. Each
   * heartbeat also contains the start time of the attempt.
   */
  detail?: { provider: string; providerLimitSeconds?: number };
  heartbeatMs?: number;
}

/** Runs one attempt with heartbeats. @throws ApplicationFailure */
export async function attempt<Outcome>(
  run: () => Promise<Outcome>,
  { submitAttemptsMax = Infinity, detail, heartbeatMs = heartbeatIntervalMs }: AttemptOptions = {},
): Promise<Outcome> {
  const context = Context.current();
  const since = new Date().toISOString();
  const heartbeats = setInterval(
    () => context.heartbeat(detail && { ...detail, since }),
    heartbeatMs,
  );
  try {
    return await run();
  } catch (error) {
    const { isLocal, attempt: number } = context.info;
    throw toApplicationFailure(error, { attempt: isLocal ? 0 : number, submitAttemptsMax });
  } finally {
    clearInterval(heartbeats);
  }
}

/** Services that the activities of provider calls use. */
export interface ProviderCallDeps {
  providers: Map<string, Provider>;
  records: CallRecords;
  /** Slots of this process for simultaneous calls, by provider. Organizations share them. */
  slots: Map<string, Shares>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  callPictures: CallPictures;
  urls: NotificationUrls;
  logger: Logger;
}

/** Returns the job id and the call index of a task. */
export function getCallIds(task: CallInput): CallIds {
  return { jobId: task.jobId, callIndex: task.callIndex };
}

/** Stores a provider's result as the outputs of a call. */
export function storeOutputs(
  { artifacts, logger }: ProviderCallDeps,
  task: CallInput,
  result: ProviderResult,
): Promise<CallOutputs> {
  const signal = Context.current().cancellationSignal;
  return storeResult(result, { artifacts, task, signal, logger });
}

/** Returns the provider of a call. */
export function getProvider(deps: ProviderCallDeps, task: CallInput): Provider {
  const provider = deps.providers.get(task.route.provider);
  assert(provider, `the provider ${task.route.provider} is not configured`);
  return provider;
}

/** Returns the functions with which a call's provider checks and cancels queued operations. */
export function getOperations(deps: ProviderCallDeps, task: CallInput): OperationsApi {
  const { operations } = getProvider(deps, task);
  assert(operations, `the provider ${task.route.provider} does not queue operations`);
  return operations;
}
