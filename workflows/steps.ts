/**
 * Runs the steps of a job (docs/decisions/0007). The first attempt of most steps is a local
 * activity of at most three seconds. If it fails or times out, the step continues as an ordinary
 * activity of the same name, whose attempts operators can see, pause and reset.
 */
import {
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { readFailure } from './failures.ts';
import type { RunningJob } from './running-job.ts';
import { stepPolicies } from './step-policies.ts';
import type { Step, StepName } from './step.ts';

type JobActivities = Pick<Activities, StepName>;

/**
 * Time limit of a first attempt, in milliseconds. Most steps take less time. A step that takes
 * longer continues as an ordinary activity, which the timeline shows.
 */
const firstAttemptMaxMs = 3000;
/**
 * Time allowed to store the result and record the submit after the provider has responded, in
 * milliseconds.
 */
const afterResponseMaxMs = 300_000;

/** Function that calls the activity of a step with its input. */
type Attempt<Outcome> = (activities: JobActivities) => Promise<Outcome>;

/**
 * Runs a step. If the first attempt of `submit` times out, it is not retried, because the call may
 * have been sent.
 * @throws the error of the last attempt, which `readFailure` reads
 */
export async function runStep<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: Attempt<Outcome>,
): Promise<Outcome> {
  if (startsAsLocalActivity(job, step)) {
    const activities = proxyLocalActivities<JobActivities>({
      scheduleToCloseTimeout: firstAttemptMaxMs,
      retry: { maximumAttempts: 1 },
      summary: step.summary,
    });
    try {
      return await attempt(activities);
    } catch (error) {
      await waitBeforeRetry(job, step, error);
    }
  }
  return runStepAsActivity(job, step, attempt);
}

/**
 * Runs a step as an ordinary activity, without a first attempt as a local activity.
 * @throws the error of the last attempt, which `readFailure` reads
 */
export function runStepAsActivity<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: Attempt<Outcome>,
): Promise<Outcome> {
  const { plan, signals } = job;
  const { name, summary, target } = step;
  const { startsLocally: _, queue, stopsWithJob, priority, ...options } = stepPolicies[name];
  const activities = proxyActivities<JobActivities>({
    // Default timeouts, which the options of the policy override.
    scheduleToCloseTimeout: calculateRemainingMs(job, step),
    ...(target && { startToCloseTimeout: target.route.submitTimeoutMs + afterResponseMaxMs }),
    ...options,
    ...(target && queue === 'provider' && { taskQueue: target.route.taskQueue }),
    priority: { fairnessKey: plan.organizationId, priorityKey: 3, ...priority },
    summary,
  });
  if (!stopsWithJob) return attempt(activities);
  const scope = new CancellationScope();
  void signals.canceled.then(() => scope.cancel());
  return scope.run(() => attempt(activities));
}

/** Returns whether the first attempt of a step is a local activity. */
function startsAsLocalActivity({ plan }: RunningJob, { name, target }: Step): boolean {
  // A replay may group the results of parallel local activities differently.
  if (target && plan.calls.length > 1) return false;
  const { startsLocally } = stepPolicies[name];
  if (typeof startsLocally === 'boolean') return startsLocally;
  return target !== undefined && startsLocally(target);
}

/** Calculates the time that remains for all attempts of a step together, in milliseconds. */
function calculateRemainingMs({ plan, deadlineAtMs }: RunningJob, { name }: Step): number {
  const remainingMs = deadlineAtMs - Date.now();
  return stepPolicies[name].stopsWithJob
    ? Math.max(1, remainingMs)
    : Math.max(0, remainingMs) + plan.outcomeWaitMs;
}

/**
 * Waits before the retry of a step whose first attempt has failed. Throws the error again if the
 * step must not be retried.
 */
async function waitBeforeRetry(job: RunningJob, step: Step, error: unknown): Promise<void> {
  const { signals, progress } = job;
  const failure = readFailure(error);
  const { type, isFinal, retryAfterMs } = failure;
  if (isFinal) throw error;
  if (type !== 'PROVIDER_BUSY') progress.addFailure(step, failure);
  if (type === null && step.name === 'submit') throw error;
  if (retryAfterMs === null) return;
  // If the retry delay is longer than the remaining time, the step fails, as an ordinary activity
  // in Temporal would.
  if (retryAfterMs > calculateRemainingMs(job, step)) throw error;
  const summary = 'wait requested by the provider (Retry-After)';
  if (await condition(() => signals.cancelRequested, retryAfterMs, { summary })) throw error;
}
