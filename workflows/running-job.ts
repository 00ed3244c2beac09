/** State of a running job and of its calls, shared by the modules of the workflow. */
import type { CallRoute, CallTask, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { failed } from './failures.ts';
import type { ProgressReport } from './progress.ts';
import type { JobSignals } from './signals.ts';

/** State of a running job. */
export interface RunningJob {
  plan: JobPlan;
  signals: JobSignals;
  progress: ProgressReport;
  /** Deadline of the job, in workflow time. */
  deadlineAtMs: number;
  /** Providers known to be paused. No call is submitted to them. */
  paused: Set<string>;
  /** Provider request ids of the accepted calls. */
  providerRequestIds: string[];
  /** Reports the start of the job to the caller, once; absent if the caller did not request it. */
  reportStart?: () => Promise<void>;
}

/** A call, with the route that is currently tried. */
export interface RunningCall extends RunningJob {
  call: PlannedCall;
  route: CallRoute;
  task: CallTask;
}

/**
 * Ends a call that no provider has accepted, if the job was canceled or its deadline has passed.
 * @throws ApplicationFailure CANCELED or DEADLINE_EXCEEDED
 */
export function throwIfOver({ signals, deadlineAtMs }: RunningJob): void {
  if (signals.cancelRequested) {
    throw failed('CANCELED', 'the job was canceled before a provider accepted the call');
  }
  if (Date.now() >= deadlineAtMs) {
    throw failed('DEADLINE_EXCEEDED', 'no provider accepted the call in time');
  }
}
