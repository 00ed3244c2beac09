/**
 * Rule for each step of a job (docs/decisions/0007): its first attempt is a local activity of at
 * most three seconds. If that attempt does not end in time, the step continues as an ordinary
 * activity of the same name, whose attempts operators can see, pause and reset.
 */
import {
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { failureOf } from './failures.ts';
import type { RunningJob } from './running-job.ts';
import { policies } from './step-policies.ts';
import type { Step, Verb } from './step.ts';

type JobActivities = Pick<Activities, Verb>;

/**
 * Limit of a first attempt. Most steps end sooner, and no step runs longer than this without a row
 * that shows it.
 */
const firstAttemptMaxMs = 3000;
/** Time to store a result that a submit returned, and to record the submit, in milliseconds. */
const afterSubmitMs = 300_000;

/** Function that calls the activity of a step with its input. */
type Attempt<Outcome> = (activities: JobActivities) => Promise<Outcome>;

/**
 * Runs a step. If the first attempt of `submit` times out, the step fails, because the call may
 * have been sent.
 * @throws the failure of the last attempt (`failureOf`)
 */
export async function run<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: Attempt<Outcome>,
): Promise<Outcome> {
  if (isFirstLocal(job, step)) {
    const activities = proxyLocalActivities<JobActivities>({
      scheduleToCloseTimeout: firstAttemptMaxMs,
      retry: { maximumAttempts: 1 },
      summary: step.summary,
    });
    try {
      return await attempt(activities);
    } catch (error) {
      await beforeRetry(job, step, error);
    }
  }
  return runAsActivity(job, step, attempt);
}

/**
 * Runs a step as an ordinary activity from its first attempt.
 * @throws the failure of the last attempt (`failureOf`)
 */
export function runAsActivity<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: Attempt<Outcome>,
): Promise<Outcome> {
  const { plan, signals } = job;
  const { verb, summary, of } = step;
  const { startsLocally: _, queue, stopsWithJob, priority, ...options } = policies[verb];
  const activities = proxyActivities<JobActivities>({
    // Timeouts of steps whose policy has none.
    scheduleToCloseTimeout: attemptsMaxMs(job, step),
    ...(of && { startToCloseTimeout: of.route.submitTimeoutMs + afterSubmitMs }),
    ...options,
    ...(of && queue === 'provider' && { taskQueue: of.route.taskQueue }),
    priority: { fairnessKey: plan.organizationId, priorityKey: 3, ...priority },
    summary,
  });
  if (!stopsWithJob) return attempt(activities);
  const scope = new CancellationScope();
  void signals.canceled.then(() => scope.cancel());
  return scope.run(() => attempt(activities));
}

/** Returns whether the first attempt of a step is a local activity. */
function isFirstLocal({ plan }: RunningJob, { verb, of }: Step): boolean {
  // In a replay, results of parallel local activities can be grouped differently than in the
  // original run.
  if (of && plan.calls.length > 1) return false;
  const { startsLocally } = policies[verb];
  if (typeof startsLocally === 'boolean') return startsLocally;
  return of !== undefined && startsLocally(of);
}

/** Returns the time that all attempts of a step may take, in milliseconds from now. */
function attemptsMaxMs({ plan, deadlineAtMs }: RunningJob, { verb }: Step): number {
  return policies[verb].stopsWithJob
    ? Math.max(1, deadlineAtMs - Date.now())
    : plan.deadlineMs + plan.outcomeWaitMs;
}

/** Returns if a step may continue after a failed first attempt; otherwise throws the failure. */
async function beforeRetry(job: RunningJob, step: Step, error: unknown): Promise<void> {
  const { signals, progress } = job;
  const failure = failureOf(error);
  const { type, isFinal, retryAfterMs } = failure;
  if (isFinal) throw error;
  if (type !== 'PROVIDER_BUSY') progress.failed(step, failure);
  if (type === null && step.verb === 'submit') throw error;
  if (retryAfterMs === null) return;
  // As for ordinary activities in Temporal: if the retry delay ends too late, the step fails.
  if (retryAfterMs > attemptsMaxMs(job, step)) throw error;
  const summary = 'Retry-After of the provider';
  if (await condition(() => signals.cancelRequested, retryAfterMs, { summary })) throw error;
}
