/** State of a running job and of one of its calls. */
import type { CallRoute, CallTask, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { failed } from './failures.ts';
import type { ProgressReport } from './progress.ts';
import type { JobSignals } from './signals.ts';

/** A job whose workflow is running. */
export interface RunningJob {
  plan: JobPlan;
  signals: JobSignals;
  progress: ProgressReport;
  /** Deadline of the job, in workflow time. */
  deadlineAtMs: number;
  /** Providers that were paused at the last read; no call is submitted to them. */
  paused: Set<string>;
  /** Provider request ids of the accepted calls. */
  providerRequestIds: string[];
  /** Reports the start of the job to the caller, once; absent if the caller did not request it. */
  reportStart?: () => Promise<void>;
}

/** One call by one of its routes. */
export interface RunningCall extends RunningJob {
  call: PlannedCall;
  route: CallRoute;
  task: CallTask;
}

/**
 * Ends a call that no provider has accepted if the job is canceled or its deadline has passed.
 * @throws ApplicationFailure CANCELED or DEADLINE_EXCEEDED
 */
export function refuseIfOver({ signals, deadlineAtMs }: RunningJob): void {
  if (signals.cancelRequested) {
    throw failed('CANCELED', 'canceled before a provider accepted it');
  }
  if (Date.now() >= deadlineAtMs) {
    throw failed('DEADLINE_EXCEEDED', 'no provider accepted the call in time');
  }
}
