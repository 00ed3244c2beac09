/**
 * Starts, awaits and cancels jobs. The workflow reserves the credits, so no reservation exists without a workflow;
 * the transaction that reserves or refuses notifies every API process (docs/decisions/0002).
 */
import { ServiceError, type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { JobReads, JobRecord } from '../../jobs/records/job-reads.ts';
import { throwRefusal } from '../../ledger/refusals.ts';
import { GatewayError } from '../../domain/errors.ts';
import { studioTaskQueue, workflowIdOf } from '../../jobs/contract.ts';
import type { JobPlan } from '../../jobs/job-plan.ts';
import type { Refusal } from '../../jobs/ledger-verdicts.ts';
import type { Config } from '../../platform/config.ts';
import { correlate } from '../../platform/correlation.ts';
import { createFairLimiter } from '../../platform/fair-limiter.ts';
import type { Hold } from '../idempotency/claims.ts';
import { describeJob } from './planner.ts';
import type { JobNews, JobSubscription } from './job-news.ts';

interface AdmissionDeps {
  client: Client;
  news: JobNews;
  reads: JobReads;
  config: Config;
}

/** A job to wait for. */
interface AwaitedJob {
  organizationId: string;
  jobId: string;
  /** Events of the job since before its start: an event that is not in it has not happened. */
  news?: JobSubscription | null;
}

/** Called before the start is sent, and when the ledger has refused the job. */
type StartHold = Pick<Hold, 'starting' | 'refused'>;

/** Time without an event after which the job's row is read. */
const rowPollMs = 1000;
const startTimeoutMs = 10_000;
/**
 * Time that a cancel waits for the provider's outcome before the response shows the current state.
 */
const cancelWaitMs = 5000;

/** Start of Studio jobs. */
export type Admission = ReturnType<typeof createAdmission>;

/**
 * Makes the function that starts a workflow. At most TEMPORAL_STARTS_MAX starts are in flight to
 * Temporal, fairly by organization, because more would only delay each other. A rejected request
 * has started nothing.
 */
function createStartInTurn(deps: AdmissionDeps) {
  const limiter = createFairLimiter(deps.config.TEMPORAL_STARTS_MAX);
  return async (plan: JobPlan, hold: StartHold): Promise<void> => {
    const leave = await limiter.enter(plan.organizationId, deps.config.TEMPORAL_START_WAIT_MS);
    if (!leave) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many jobs wait to be started.', {
        retryAfterSeconds: 2,
      });
    }
    try {
      await hold.starting();
      await start(deps, plan);
    } finally {
      leave();
    }
  };
}

/** Starts, awaits and cancels jobs. */
export function createAdmission(deps: AdmissionDeps) {
  const startInTurn = createStartInTurn(deps);
  const waiting = new Map<string, number>();
  let waitingCount = 0;

  return {
    /**
     * Starts the workflow and returns once the credits are reserved, with a subscription to the events of the job
     * since before its start. The caller of this function ends the subscription.
     * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED, WINDOW_EXHAUSTED,
     *   SERVICE_UNAVAILABLE, REQUEST_IN_PROGRESS
     */
    async admit(plan: JobPlan, hold: StartHold): Promise<JobSubscription> {
      correlate({ jobId: plan.jobId, workflowId: workflowIdOf(plan.jobId) });
      const news = deps.news.subscribe(plan.jobId);
      try {
        await startInTurn(plan, hold);
        const refusal = await awaitVerdict(deps, plan, news);
        if (refusal) {
          hold.refused();
          throwRefusal(refusal);
        }
        return news;
      } catch (error) {
        news.end();
        throw error;
      }
    },

    /**
     * Waits like `awaitEnd` for a synchronous request. If `SYNC_WAITERS_MAX` requests wait, or half as many of one
     * organization, it does not wait, so that the response is 202.
     */
    async awaitByFew(job: AwaitedJob, waitMs: number): Promise<JobRecord | null> {
      const { organizationId } = job;
      const max = deps.config.SYNC_WAITERS_MAX;
      const count = waiting.get(organizationId) ?? 0;
      const mayWait = waitingCount < max && count < Math.ceil(max / 2);
      waiting.set(organizationId, count + 1);
      waitingCount += 1;
      try {
        return await awaitEnd(deps, job, mayWait ? waitMs : 0);
      } finally {
        waitingCount -= 1;
        const left = (waiting.get(organizationId) ?? 1) - 1;
        if (left === 0) waiting.delete(organizationId);
        else waiting.set(organizationId, left);
      }
    },

    /** Waits until the job ends, at most `waitMs`. Returns its row; null if it has none. */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /**
     * Signals the workflow to cancel, and returns the job shortly afterwards: the provider's
     * outcome decides.
     * @throws GatewayError JOB_ALREADY_DONE
     */
    async cancel(organizationId: string, job: JobRecord): Promise<JobRecord> {
      if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
      try {
        await deps.client.workflow.getHandle(workflowIdOf(job.id)).cancel();
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
      return (await awaitEnd(deps, { organizationId, jobId: job.id }, cancelWaitMs)) ?? job;
    },
  };
}

async function awaitEnd(
  deps: Pick<AdmissionDeps, 'news' | 'reads'>,
  { organizationId, jobId, news: given }: AwaitedJob,
  waitMs: number,
): Promise<JobRecord | null> {
  const news = given ?? deps.news.subscribe(jobId);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    if (given) await untilEnd(given, waitMs);
    for (;;) {
      const job = await deps.reads.read(organizationId, jobId);
      const leftMs = deadlineAtMs - performance.now();
      if (!job || job.status !== 'queued' || leftMs <= 0) return job;
      await untilEnd(news, leftMs);
    }
  } finally {
    news.end();
  }
}

/** Returns at the event that the job has ended, or after the time limit. */
async function untilEnd(news: JobSubscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let leftMs = waitMs; leftMs > 0; leftMs = deadlineAtMs - performance.now()) {
    const event = await news.next(leftMs);
    if (event === null || event.event === 'done') return;
  }
}

/**
 * Waits for the verdict of the ledger on a job that was started: the refusal, or null when its credits are reserved.
 * The event of the deciding transaction can be lost with a connection; a reservation is then found by the job's
 * row. A refused job has no row: a repeat with the same Idempotency-Key starts it again, and receives an event.
 * @throws GatewayError SERVICE_UNAVAILABLE with the job's id when neither event nor row is there in time
 */
async function awaitVerdict(
  { config, reads }: AdmissionDeps,
  plan: JobPlan,
  news: JobSubscription,
): Promise<Refusal | null> {
  const deadlineAtMs = performance.now() + config.VERDICT_WAIT_MS;
  for (;;) {
    const leftMs = deadlineAtMs - performance.now();
    if (leftMs <= 0) throw startFailed(plan, 'The job waits for a worker.');
    const event = await news.next(Math.min(rowPollMs, leftMs));
    if (event) return event.event === 'refused' ? event.refusal : null;
    if (await reads.read(plan.organizationId, plan.jobId)) return null;
  }
}

/** Makes the error of a request whose job may run: the error names the job. */
function startFailed(plan: JobPlan, message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVICE_UNAVAILABLE', message, {
    retryAfterSeconds: 2,
    body: { jobId: plan.jobId },
    ...(cause !== undefined && { cause }),
  });
}

/**
 * Starts the workflow, unless it is running. A workflow that has ended may be started again: its reservation is
 * idempotent by job id, and nothing is sent for a job that was settled.
 */
async function start({ client, config }: AdmissionDeps, plan: JobPlan): Promise<void> {
  try {
    await client.withDeadline(Date.now() + startTimeoutMs, () =>
      client.workflow.start(plan.type, {
        workflowId: workflowIdOf(plan.jobId),
        taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
        args: [plan],
        workflowIdConflictPolicy: 'USE_EXISTING',
        ...describeJob(plan),
        priority: { fairnessKey: plan.organizationId },
      }),
    );
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw startFailed(plan, 'The job could not be started.', error);
  }
}
