/** State of a running job and of its calls, shared by the modules of the workflow. */
import type { CallRoute, CallInput, JobPlan, PlannedCall } from '../domain/job-plan.ts';
import { createFailure } from './failures.ts';
import type { ProgressReport } from './progress.ts';
import type { JobSignals } from './signals.ts';
import type { Waits } from './approval-wait.ts';

/** State of a running job. */
export interface RunningJob {
  plan: JobPlan;
  signals: JobSignals;
  progress: ProgressReport;
  /** Deadline of the job in Unix milliseconds, measured with the workflow's clock. */
  deadlineAtMs: number;
  /**
   * True if the first attempts of the steps of calls are local activities: if no two calls run at the
   * same time, because a replay may group the results of parallel local activities differently.
   */
  startsCallsLocally: boolean;
  /** Names of providers that are known to be paused. No call is submitted to them. */
  pausedProviders: Set<string>;
  /** Waits for approvals; absent if no step of the job needs one. */
  waits?: Waits;
  /** Provider request ids of the accepted calls. */
  providerRequestIds: string[];
  /**
   * Starts the delivery of the webhook that reports the start of the job, unless it was already
   * started. Absent if the caller did not request this webhook.
   */
  reportStart?: () => Promise<void>;
}

/** State of a running call, and the route on which it is currently being tried. */
export interface RunningCall extends RunningJob {
  call: PlannedCall;
  route: CallRoute;
  task: CallInput;
}

/**
 * Throws if the job was canceled or its deadline has passed before a provider accepted the call.
 * @throws ApplicationFailure CANCELED or DEADLINE_EXCEEDED
 */
export function throwIfCanceledOrOverdue({ signals, deadlineAtMs }: RunningJob): void {
  if (signals.cancelRequested) {
    throw createFailure('CANCELED', 'the job was canceled before a provider accepted the call');
  }
  if (Date.now() >= deadlineAtMs) {
    throw createFailure('DEADLINE_EXCEEDED', 'no provider accepted the call in time');
  }
}
