/**
 * The rule of every step of a job (docs/decisions/0007): its first attempt is a local activity of at most three
 * seconds. A step that does not end there continues as an ordinary activity of the same name, whose attempts an
 * operator sees, pauses and resets. Every activity is idempotent by what is recorded, so an attempt that was given
 * up may still end.
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
  /** Text that an operator reads in the step's row. */
  summary: string;
  /** The call that the step belongs to, by one of its routes. */
  of?: { call: PlannedCall; route: CallRoute };
}

/**
 * Longest first attempt. Nearly all steps end sooner, and no step may run for longer than this without a row that
 * shows it.
 */
const firstAttemptMax = '3s';

const backoff = {
  initialInterval: '500ms',
  backoffCoefficient: 2,
  maximumInterval: '20s',
} as const;
/** A settlement is the only way on: it is retried for days, and settles half a minute after an outage. */
const settling: ActivityOptions = {
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '7 days',
  retry: { ...backoff, maximumInterval: '30s' },
};

/** How a step runs as an ordinary activity. */
interface Policy extends ActivityOptions {
  /** Whether it waits on the queue of its provider; other steps run on the queue of the workflow. */
  byProvider?: true;
}

/** The policies; a step without `scheduleToCloseTimeout` ends with its job. */
const policies: Record<Verb, Policy> = {
  // After half a minute the caller had better repeat the request.
  reserve: { startToCloseTimeout: '20s', scheduleToCloseTimeout: '40s', retry: backoff },
  // Five minutes for a provider that responds with the result, and as long to store it. Refusals are counted by the call.
  submit: {
    byProvider: true,
    startToCloseTimeout: '10 minutes',
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // As long as the submit whose record it waits for.
  adopt: {
    byProvider: true,
    startToCloseTimeout: '10 minutes',
    heartbeatTimeout: '15s',
    retry: backoff,
  },
  // It fails while the provider is paused, until the workflow cancels it: its attempts cost no history event.
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
  // Three quarters of a minute for the result, two minutes to read each output, and their conversion.
  store: {
    byProvider: true,
    startToCloseTimeout: '5 minutes',
    heartbeatTimeout: '15s',
    retry: { ...backoff, maximumAttempts: 6 },
    // Before the checks and submits that wait on the queue of its provider.
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
 * Runs a step. A first attempt of `submit` that times out fails the step: the call may have been sent.
 * @throws the failure of its last attempt (`failureOf`)
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

/** Whether the first attempt is a local activity; false for steps that would not end in its time. */
function startsLocally({ calls }: JobPlan, { verb, of }: Step): boolean {
  if (verb === 'adopt' || verb === 'awaitResume') return false;
  if (!of) return true;
  // A replay groups the results of parallel local activities in another way than they came in.
  if (calls.length > 1) return false;
  // A provider that never notifies responds with the result: the submit takes as long as its work.
  if (verb === 'submit') return of.route.notifies;
  return verb !== 'store' || of.call.output.medium !== 'video';
}

/** Returns when a step whose first attempt failed may be repeated; throws the failure when it may not. */
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
  // As Temporal does with ordinary activities: a wait that is longer than the job ends the step.
  if (retryAfterMs > plan.deadlineMs) throw error;
  const summary = 'the provider asks to wait';
  if (await condition(() => signals.cancelRequested, retryAfterMs, { summary })) throw error;
}

function ordinaryActivities(plan: JobPlan, { verb, summary, of }: Step): JobActivities {
  const { byProvider, priority, ...options } = policies[verb];
  return proxyActivities<JobActivities>({
    scheduleToCloseTimeout: plan.deadlineMs + plan.outcomeWaitMs,
    ...options,
    ...(byProvider && of && { taskQueue: of.route.taskQueue }),
    priority: { fairnessKey: plan.organizationId, priorityKey: 3, ...priority },
    summary,
  });
}

/** The failure of a step's last attempt. */
export interface StepFailure {
  /** A code of the error table, or a type of activities (activities/attempt.ts); null for a timeout. */
  type: string | null;
  message: string;
  /** Whether another attempt would fail in the same way. */
  isFinal: boolean;
  /** The wait that the provider named, if it did. */
  retryAfterMs: number | null;
}

/** Reads a failure. */
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

/** A failure that ends a call, or the job; `code` is of the error table. */
export function failed(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}
