/**
 * How every step of a job runs, written once (docs/decisions/0007): its first attempt is a local activity,
 * here and now, of at most three seconds. What does not end there (no room for the provider, a refusal, a
 * fault, time) goes on as an ordinary activity of the same name, whose attempts an operator sees, pauses and
 * resets. Every activity is idempotent by what is on record, so an attempt that was given up may still end.
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
import type { JobPlan } from '../jobs/job-plan.ts';
import type { ProgressReport, JobSignals } from './running-job.ts';

/** A job that runs. */
export interface RunningJob {
  plan: JobPlan;
  signals: JobSignals;
  progress: ProgressReport;
}

/** The steps of a job; each is a row of its timeline. */
export type Verb =
  | 'reserve'
  | 'submit'
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
  /** What an operator reads in the step's row. */
  summary: string;
  /** The call it belongs to, where it has one. */
  callIndex?: number;
  /** Queue of the provider; without it the ordinary activity runs on the workflow's own. */
  taskQueue?: string | undefined;
  /** It is an ordinary activity from the start. */
  isQueued?: boolean;
  /** Goes before others that wait in the same queue. */
  isUrgent?: boolean;
}

/** An attempt that has not ended by then goes on as an activity that one can see. */
const firstAttemptMax = '3s';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;
/** A settlement is the only way on: it is tried for days, and settles half a minute after an outage. */
const settling: ActivityOptions = {
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/**
 * The ordinary activities: how long an attempt may take, and how often it is made. A submit is retried up
 * to the job's deadline while nothing was sent; how often a provider may refuse says the call's task.
 */
const policies: Record<Verb, ActivityOptions> = {
  // After half a minute the caller is better told to come back.
  reserve: { startToCloseTimeout: '20s', scheduleToCloseTimeout: '40s', retry: backoff },
  // Five minutes for a provider that answers with the result, and as long to store it.
  submit: { startToCloseTimeout: '10 minutes', heartbeatTimeout: '15s', retry: backoff },
  // Three quarters of a minute for the check, two minutes to read each output, and their conversion.
  store: {
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
  },
  cancel: { startToCloseTimeout: '50s', heartbeatTimeout: '15s', retry: { maximumAttempts: 3 } },
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
 * Runs a step.
 * @throws what its last attempt failed with (`failureOf`)
 */
export async function run<Outcome>(
  job: RunningJob,
  step: Step,
  attempt: (activities: JobActivities) => Promise<Outcome>,
): Promise<Outcome> {
  const { plan } = job;
  const { summary } = step;
  if (!step.isQueued) {
    try {
      return await attempt(
        proxyLocalActivities<JobActivities>({
          scheduleToCloseTimeout: firstAttemptMax,
          retry: { maximumAttempts: 1 },
          summary,
        }),
      );
    } catch (error) {
      const failure = failureOf(error);
      if (failure.isFinal) throw error;
      job.progress.failed(step, failure);
      const { retryAfterMs } = failure;
      // As with an ordinary activity: a wait that is longer than its time ends it.
      if (retryAfterMs !== null && retryAfterMs > plan.deadlineMs) throw error;
      if (retryAfterMs !== null && (await canceledWithin(job, retryAfterMs))) throw error;
    }
  }
  return attempt(
    proxyActivities<JobActivities>({
      scheduleToCloseTimeout: plan.deadlineMs + plan.outcomeWaitMs,
      ...policies[step.verb],
      ...(step.taskQueue !== undefined && { taskQueue: step.taskQueue }),
      priority: { fairnessKey: plan.organizationId, priorityKey: step.isUrgent ? 2 : 3 },
      summary,
    }),
  );
}

/** Waits as long as the provider asked for; true as soon as the job is to be canceled. */
function canceledWithin({ signals }: RunningJob, waitMs: number): Promise<boolean> {
  return condition(() => signals.cancelRequested, waitMs, { summary: 'the provider asks to wait' });
}

/** A failure of a step, local or not. */
export interface StepFailure {
  /** A code of the error table, or a word of retries; null for a timeout. */
  type: string | null;
  message: string;
  /** Whether the same would fail again. */
  isFinal: boolean;
  /** When the provider wants to be asked again, if it said so. */
  retryAfterMs: number | null;
}

/** Reads a failure. */
export function failureOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (!(cause instanceof ApplicationFailure)) {
    const said = error instanceof Error ? error.message : String(error);
    const message = cause instanceof TimeoutFailure ? 'no answer in time' : said;
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
  const isTold = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return isTold && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}

/** A failure that ends a call, or the job; `code` is of the error table. */
export function failed(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}
