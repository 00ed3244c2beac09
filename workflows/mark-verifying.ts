/** Runs the step `markVerifying` for a call. */
import type { RunningCall } from './running-job.ts';
import { callStep } from './step.ts';
import { runStep } from './steps.ts';

/** Shows callers that the outcome of the job is being verified. */
export function markVerifying(running: RunningCall): Promise<void> {
  return runStep(running, callStep(running, 'markVerifying'), (activities) =>
    activities.markVerifying(running.plan.jobId),
  );
}
