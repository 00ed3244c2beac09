/**
 * Rule for each step of a job (docs/decisions/0007): its first attempt is a local activity of at
 * most three seconds. If that attempt does not end in time, the step continues as an ordinary
 * activity of the same name, whose attempts operators can see, pause and reset. Activities are
 * idempotent by their records, because an attempt that timed out may still complete.
 */
import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
  type ActivityOptions,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { failureOf } from './failures.ts';
import type { RunningJob } from './running-job.ts';
import type { Step, StepCall, Verb } from './step.ts';

type JobActivities = Pick<Activities, Verb>;

/**
 * Limit of a first attempt. Most steps end sooner, and no step runs longer than this without a row
 * that shows it.
 */
const firstAttemptMaxMs = 3000;

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;

/** Policy of a step. */
interface Policy extends ActivityOptions {
  /** Steps whose first attempt is a local activity. */
  local: 'all' | 'none' | ((call: StepCall) => boolean);
  /** Task queue of the ordinary activity: that of the call's provider, or that of the workflow. */
  queue: 'provider' | 'studio';
  /** True if no attempt starts after the job's deadline or after a cancel of the job. */
  stopsWithJob?: true;
}

/**
 * Policy of settlements: they are retried for days, and succeed within half a minute after an
 * outage.
 */
const settling: Policy = {
  local: 'all',
  queue: 'studio',
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Time to store a result that a submit returned, and to record the submit, in milliseconds. */
const afterSubmitMs = 300_000;

/**
 * Policies by step. Without `scheduleToCloseTimeout`, a step ends with its job; without
 * `startToCloseTimeout`, an attempt ends after the provider's limit and `afterSubmitMs`.
 */
const policies: Record<Verb, Policy> = {
  reserve: {
    local: 'all',
    queue: 'studio',
    startToCloseTimeout: '20s',
    // After half a minute, a retry by the caller is better than a longer wait.
    scheduleToCloseTimeout: '40s',
    retry: backoff,
  },
  // The number of refusals is limited by the activity (`CallTask.refusalsMax`).
  submit: {
    // A provider without notifications responds with the result, after the whole work.
    local: ({ route }) => route.notifies,
    queue: 'provider',
    stopsWithJob: true,
    // An attempt that is sending the call when the job is canceled ends by itself.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // The activity reads the record of a submit and calls no provider; it waits while that submit is
  // in progress.
  adopt: { local: 'none', queue: 'studio', heartbeatTimeout: '15s', retry: backoff },
  // The activity fails while the provider is paused, until the workflow cancels it: failed attempts
  // add no history events.
  awaitResume: {
    local: 'none',
    queue: 'studio',
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: '7 days',
    retry: { initialInterval: '1 minute', backoffCoefficient: 1 },
  },
  check: {
    local: 'all',
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  // 45 seconds for the result, two minutes to read each output, and the time to convert them. A
  // result has priority over the checks and submits that wait on the provider's queue.
  store: {
    local: ({ call }) => call.output.medium !== 'video',
    queue: 'provider',
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
    priority: { priorityKey: 2 },
  },
  cancel: {
    local: 'all',
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  assemble: {
    local: 'all',
    queue: 'studio',
    startToCloseTimeout: '5 minutes',
    scheduleToCloseTimeout: '15 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumInterval: '30s' },
  },
  charge: settling,
  release: settling,
  markVerifying: settling,
};

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
  if (startsLocally(job, step)) {
    const options = {
      scheduleToCloseTimeout: firstAttemptMaxMs,
      retry: { maximumAttempts: 1 },
      summary: step.summary,
    };
    try {
      return await attempt(proxyLocalActivities<JobActivities>(options));
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
  const { local: _, queue, stopsWithJob, priority, ...options } = policies[verb];
  const activities = proxyActivities<JobActivities>({
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
function startsLocally({ plan }: RunningJob, { verb, of }: Step): boolean {
  // In a replay, results of parallel local activities can be grouped differently than in the
  // original run.
  if (of && plan.calls.length > 1) return false;
  const { local } = policies[verb];
  return typeof local === 'function' ? of !== undefined && local(of) : local === 'all';
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
