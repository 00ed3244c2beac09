/**
 * Rule for each step of a job (docs/decisions/0007): its first attempt is a local activity of at
 * most three seconds. If that attempt does not end in time, the step continues as an ordinary
 * activity of the same name, whose attempts operators can see, pause and reset. Activities are
 * idempotent by their records, because an attempt that timed out may still complete.
 */
import {
  condition,
  proxyActivities,
  proxyLocalActivities,
  ActivityFailure,
  ApplicationFailure,
  TimeoutFailure,
  type ActivityOptions,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import type { CallRoute, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import type { ProgressReport, JobSignals } from './running-job.ts';

/** A job with its workflow and signals. */
export interface RunningJob {
  plan: JobPlan;
  signals: JobSignals;
  progress: ProgressReport;
}

/** Steps of a job; each is a row of its timeline. */
export type Verb =
  | 'reserve'
  | 'submit'
  | 'adopt'
  | 'awaitResume'
  | 'check'
  | 'store'
  | 'cancel'
  | 'assemble'
  | 'charge'
  | 'release'
  | 'markVerifying';

type JobActivities = Pick<Activities, Verb>;

/** One step. */
export interface Step {
  verb: Verb;
  /** Text of the step's row in the Temporal UI. */
  summary: string;
  /** Call of the step, by one of its routes. */
  of?: { call: PlannedCall; route: CallRoute };
}

/**
 * Limit of a first attempt. Most steps end sooner, and no step runs longer than this without a row
 * that shows it.
 */
const firstAttemptMax = '3s';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;
/**
 * Retry policy of settlements: they are retried for days, and succeed within half a minute after an
 * outage.
 */
const settling: ActivityOptions = {
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** Policy of a step as an ordinary activity. */
interface Policy extends ActivityOptions {
  /**
   * True if the step waits on the task queue of its provider; other steps run on the workflow's
   * queue.
   */
  byProvider?: true;
}

/** Time to store a result that a submit returned, and to record the submit, in milliseconds. */
const afterSubmitMs = 300_000;

/** Policies by step. A step without `scheduleToCloseTimeout` ends with its job. */
const policies: Record<Verb, Policy> = {
  // After half a minute, a retry by the caller is better than a longer wait.
  reserve: { startToCloseTimeout: '20s', scheduleToCloseTimeout: '40s', retry: backoff },
  // One attempt ends after the provider's limit and `afterSubmitMs`. The call counts refusals.
  submit: { byProvider: true, heartbeatTimeout: '15s', retry: backoff },
  // Same limits as the submit whose record is read.
  adopt: { byProvider: true, heartbeatTimeout: '15s', retry: backoff },
  // The activity fails while the provider is paused, until the workflow cancels it: failed attempts
  // add no history events.
  awaitResume: {
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: '7 days',
    retry: { initialInterval: '1 minute', backoffCoefficient: 1 },
  },
  check: {
    byProvider: true,
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  // 45 seconds for the result, two minutes to read each output, and the time to convert them.
  store: {
    byProvider: true,
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
    // Priority over the checks and submits that wait on the provider's queue.
    priority: { priorityKey: 2 },
  },
  cancel: {
    byProvider: true,
    startToCloseTimeout: '50s',
    heartbeatTimeout: '15s',
    retry: { maximumAttempts: 3 },
  },
  assemble: {
    startToCloseTimeout: '5 minutes',
    scheduleToCloseTimeout: '15 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumInterval: '30s' },
  },
  charge: settling,
  release: settling,
  markVerifying: settling,
};

/**
 * Runs a step. If the first attempt of `submit` times out, the step fails, because the call may
 * have been sent.
 * @throws the failure of the last attempt (`failureOf`)
 */
export async function run<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: (activities: JobActivities) => Promise<Outcome>,
): Promise<Outcome> {
  if (startsLocally(job.plan, step)) {
    try {
      return await attempt(
        proxyLocalActivities<JobActivities>({
          scheduleToCloseTimeout: firstAttemptMax,
          retry: { maximumAttempts: 1 },
          summary: step.summary,
        }),
      );
    } catch (error) {
      await beforeRetry(job, step, error);
    }
  }
  return attempt(ordinaryActivities(job.plan, step));
}

/**
 * Returns whether the first attempt is a local activity; false for steps that take longer than its
 * limit.
 */
function startsLocally({ calls }: JobPlan, { verb, of }: Step): boolean {
  if (verb === 'adopt' || verb === 'awaitResume') return false;
  if (!of) return true;
  // In a replay, results of parallel local activities can be grouped differently than in the
  // original run.
  if (calls.length > 1) return false;
  // A provider without notifications responds to the submit with the result, after the whole work.
  if (verb === 'submit') return of.route.notifies;
  return verb !== 'store' || of.call.output.medium !== 'video';
}

/** Returns if a step may continue after a failed first attempt; otherwise throws the failure. */
async function beforeRetry(
  { plan, signals, progress }: RunningJob,
  step: Step,
  error: unknown,
): Promise<void> {
  const failure = failureOf(error);
  const { type, isFinal, retryAfterMs } = failure;
  if (isFinal) throw error;
  if (type !== 'PROVIDER_BUSY') progress.failed(step, failure);
  if (type === null && step.verb === 'submit') throw error;
  if (retryAfterMs === null) return;
  // As for ordinary activities in Temporal: if the retry delay is longer than the job, the step
  // fails.
  if (retryAfterMs > plan.deadlineMs) throw error;
  const summary = 'the provider asks to wait';
  if (await condition(() => signals.cancelRequested, retryAfterMs, { summary })) throw error;
}

function ordinaryActivities(plan: JobPlan, { verb, summary, of }: Step): JobActivities {
  const { byProvider, priority, ...options } = policies[verb];
  return proxyActivities<JobActivities>({
    scheduleToCloseTimeout: plan.deadlineMs + plan.outcomeWaitMs,
    ...(of && { startToCloseTimeout: of.route.submitTimeoutMs + afterSubmitMs }),
    ...options,
    ...(byProvider && of && { taskQueue: of.route.taskQueue }),
    priority: { fairnessKey: plan.organizationId, priorityKey: 3, ...priority },
    summary,
  });
}

/** Failure of a step's last attempt. */
export interface StepFailure {
  /**
   * Code of the error table, or failure type of an activity (activities/attempt.ts); null for a
   * timeout.
   */
  type: string | null;
  message: string;
  /** True if another attempt would fail in the same way. */
  isFinal: boolean;
  /** Retry delay of the provider, if it sent one. */
  retryAfterMs: number | null;
}

/** Reads the cause of an activity failure. */
export function failureOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (!(cause instanceof ApplicationFailure)) {
    const said = error instanceof Error ? error.message : String(error);
    const message = cause instanceof TimeoutFailure ? 'no response in time' : said;
    return { type: null, message, isFinal: false, retryAfterMs: null };
  }
  const { type, message, nonRetryable, details } = cause;
  return {
    type: type ?? null,
    message,
    isFinal: nonRetryable ?? false,
    retryAfterMs: retryAfterOf(details?.[0]),
  };
}

function retryAfterOf(detail: unknown): number | null {
  const isNamed = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return isNamed && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}

/** Makes a failure that ends a call or the job; `code` is of the error table. */
export function failed(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}
