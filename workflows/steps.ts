/**
 * Runs the steps of a job. A step is a local activity of at most three seconds and, if that does not
 * end, an ordinary activity of the same name (docs/decisions/0007). Each step has a policy.
 */
import type { CallRoute, JobPlan, PlannedCall } from '../domain/job-plan.ts';
import { callPrefix } from './progress.ts';
import {
  ActivityCancellationType,
  type ActivityOptions,
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { readFailure } from './failures.ts';
import type { RunningJob } from './running-job.ts';

/** Name of a step. The activity that executes the step has the same name. */
export type StepName =
  | 'reserve'
  | 'completeStep'
  | 'recordApproval'
  | 'submit'
  | 'adopt'
  | 'awaitResume'
  | 'check'
  | 'store'
  | 'cancel'
  | 'assemble'
  | 'reserveChat'
  | 'answerChat'
  | 'settleChat'
  | 'charge'
  | 'release'
  | 'markVerifying';

/** Call, and the route on which it is currently being tried. */
export interface CallOnRoute {
  call: PlannedCall;
  route: CallRoute;
}

/** Step of a job: one execution of an activity. */
export interface Step {
  name: StepName;
  /** Summary that the Temporal UI shows for the activity. */
  summary: string;
  /** Call to which the step belongs; absent if the step belongs to the whole job. */
  target?: CallOnRoute;
}

/** Creates a step of a call, with a summary such as `call 2 of 4 · fal nano-banana`. */
export function callStep(
  { plan, call, route }: CallOnRoute & { plan: JobPlan },
  name: StepName,
): Step {
  const model = plan.steps ? call.output.model : plan.model;
  const modelLabel = model ?? route.providerEndpoint;
  const activity = plan.steps ? `${name} · ` : '';
  const summary = `${callPrefix({ plan, call })}${activity}${route.provider} ${modelLabel}`;
  return { name, summary, target: { call, route } };
}

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;

/** Policy of a step: first attempt, task queue, and options of its ordinary activity. */
interface StepPolicy extends ActivityOptions {
  /** True if the first attempt is a local activity. A function decides it for each call. */
  startsLocally: boolean | ((call: CallOnRoute) => boolean);
  /** Task queue of the ordinary activity: that of the call's provider, of Studio, or of chat jobs. */
  queue: 'provider' | 'studio' | 'chats';
  /** True if no attempt may start after the deadline or the cancellation of the job. */
  stopsWithJob?: true;
}

/**
 * Policy of the steps that settle a job or mark it as being verified. They are retried for up to
 * seven days. After an outage of the database, the next attempt starts within 30 seconds.
 */
const settlementPolicy: StepPolicy = {
  startsLocally: true,
  queue: 'studio',
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Policy of the steps that reserve the credits of a job. */
const reservationPolicy: StepPolicy = {
  startsLocally: true,
  queue: 'studio',
  startToCloseTimeout: '20s',
  // The step fails after 40 seconds, so that the caller can retry instead of waiting longer.
  scheduleToCloseTimeout: '40s',
  retry: backoff,
};

/** Policies of all steps. The file steps.ts contains the default timeouts. */
const stepPolicies: Record<StepName, StepPolicy> = {
  reserve: reservationPolicy,
  reserveChat: reservationPolicy,
  // The activity ends the answer at the deadline, or if the job is canceled, so that what was delivered
  // is charged.
  answerChat: {
    startsLocally: false,
    queue: 'chats',
    stopsWithJob: true,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  completeStep: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '1 minute',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumInterval: '30s' },
  },
  // No first attempt is local: the Update of a decision is durable only once the workflow task ends that
  // accepts it. If a repeated task accepted another decision, the provider would already be called.
  recordApproval: { ...settlementPolicy, startsLocally: false },
  // The activity limits the attempts that are not accepted (`CallInput.submitAttemptsMax`).
  submit: {
    // A provider that sends no notifications responds only when the result is complete, which takes
    // too long for a local activity.
    startsLocally: ({ route }) => route.notifies,
    queue: 'provider',
    stopsWithJob: true,
    // If the job is canceled while an attempt sends the call, the attempt continues until the
    // outcome of the call is known.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // The step waits while a submit is in progress, then reads its record. It calls no provider.
  adopt: { startsLocally: false, queue: 'studio', heartbeatTimeout: '15s', retry: backoff },
  // The step `awaitResume` fails and is retried while the provider is paused. Unlike timers,
  // retries add no events to the workflow's history.
  awaitResume: {
    startsLocally: false,
    queue: 'studio',
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: '7 days',
    retry: { initialInterval: '1 minute', backoffCoefficient: 1 },
  },
  check: {
    startsLocally: true,
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  // The timeout of `store` allows 45 seconds to read the result, two minutes for each output, and
  // time to convert them. The activity limits the attempts to read a result; while the gateway's
  // storage is unavailable, it is retried until OUTCOME_WAIT_MS after the deadline. Because of the
  // priority, results are read before waiting checks and submits.
  store: {
    startsLocally: ({ call }) => call.output.medium !== 'video',
    queue: 'provider',
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: backoff,
    priority: { priorityKey: 2 },
  },
  cancel: {
    startsLocally: true,
    queue: 'provider',
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  assemble: {
    startsLocally: true,
    queue: 'studio',
    startToCloseTimeout: '5 minutes',
    scheduleToCloseTimeout: '15 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumInterval: '30s' },
  },
  settleChat: settlementPolicy,
  charge: settlementPolicy,
  release: settlementPolicy,
  markVerifying: settlementPolicy,
};

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
    ...(queue === 'chats' && plan.chatTaskQueue !== undefined && { taskQueue: plan.chatTaskQueue }),
    priority: {
      fairnessKey: plan.organizationId,
      priorityKey: plan.inBulk ? 4 : 3,
      ...priority,
    },
    summary,
  });
  if (!stopsWithJob) return attempt(activities);
  const scope = new CancellationScope();
  void signals.canceled.then(() => scope.cancel());
  return scope.run(() => attempt(activities));
}

/** Returns whether the first attempt of a step is a local activity. */
function startsAsLocalActivity(
  { plan, startsCallsLocally }: RunningJob,
  { name, target }: Step,
): boolean {
  const isOfCalls = target || (plan.steps && (name === 'completeStep' || name === 'assemble'));
  if (isOfCalls && !startsCallsLocally) return false;
  const { startsLocally } = stepPolicies[name];
  if (typeof startsLocally === 'boolean') return startsLocally;
  return target !== undefined && startsLocally(target);
}

/** Calculates the time that remains for all attempts of a step together, in milliseconds. */
function calculateRemainingMs({ plan, deadlineAtMs }: RunningJob, { name }: Step): number {
  const remainingMs = deadlineAtMs - Date.now();
  return stepPolicies[name].stopsWithJob && name !== 'answerChat'
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
  const prefix = step.target ? callPrefix({ plan: job.plan, call: step.target.call }) : '';
  const summary = `${prefix}wait requested by the provider (Retry-After)`;
  if (await condition(() => signals.cancelRequested, retryAfterMs, { summary })) throw error;
}
