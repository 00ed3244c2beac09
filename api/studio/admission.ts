/**
 * Jobs as the API starts, awaits and cancels them. The workflow itself reserves, so a reservation never exists
 * without an owner; started eagerly, its first task runs in this very process, and Postgres tells the verdict
 * (docs/decisions/0002).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  type Client,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { JobReads, JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Ledger } from '../../activities/ledger/ledger.ts';
import { throwRefusal } from '../../activities/ledger/refusals.ts';
import { GatewayError } from '../../domain/errors.ts';
import { studioTaskQueue, workflowIdOf, type JobOutcome } from '../../jobs/contract.ts';
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
  ledger: Pick<Ledger, 'refusalOf'>;
  config: Config;
  /** Whether this process works on the Studio queue, so that starts can be eager. */
  eager: boolean;
}

/** A job to wait for. */
interface AwaitedJob {
  organizationId: string;
  jobId: string;
  /** Its news since before its start: what they have not told has not happened. */
  news?: JobSubscription | null;
}

/** Told before the start is sent, and when the ledger has refused what was started. */
type StartHold = Pick<Hold, 'starting' | 'refused'>;

/** The verdict on an eager start that is not heard by now was lost, or the start ran elsewhere or not at all. */
const eagerVerdictWaitMs = 2_000;
const startTimeoutMs = 10_000;
/** How long a cancel waits for the provider's verdict before it answers with what is known. */
const cancelWaitMs = 5000;

/** See `createAdmission`. */
export type Admission = ReturnType<typeof createAdmission>;

/**
 * See the file's head. Only so many jobs are on their way at a time, fairly by organization: those that run here
 * until the verdict, others until Temporal has them; more at once only make each other late. Whoever is turned
 * away has started nothing.
 */
export function createAdmission(deps: AdmissionDeps) {
  const limiter = createFairLimiter(deps.config.TEMPORAL_STARTS_MAX);

  return {
    /**
     * Starts the workflow and returns once the credits are reserved, with the news of the job
     * since before its start; whoever gets them ends the subscription.
     * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED, WINDOW_EXHAUSTED,
     *   SERVICE_UNAVAILABLE, REQUEST_IN_PROGRESS
     */
    async admit(plan: JobPlan, hold: StartHold): Promise<JobSubscription> {
      correlate({ jobId: plan.jobId, workflowId: workflowIdOf(plan.jobId) });
      const leave = await limiter.enter(plan.organizationId, deps.config.TEMPORAL_START_WAIT_MS);
      if (!leave) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many jobs wait to be started.', {
          retryAfterSeconds: 2,
        });
      }
      try {
        return await startJob(deps, plan, { hold, leave });
      } finally {
        leave();
      }
    },

    /** Waits until the job ends, at most `waitMs`; returns its row then, or null when it has none. */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /**
     * Asks the workflow to cancel, and returns the job a moment later: the provider's verdict decides.
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

/** Starts the workflow and hears the ledger's verdict; calls `leave` when others may start. */
async function startJob(
  deps: AdmissionDeps,
  plan: JobPlan,
  { hold, leave }: { hold: StartHold; leave: () => void },
): Promise<JobSubscription> {
  // Who has nothing left starts nothing; the reservation itself is the workflow's.
  const refused = await deps.ledger.refusalOf(plan);
  if (refused) throwRefusal(refused);
  const news = deps.news.subscribe(plan.jobId);
  try {
    await hold.starting();
    const { eager } = await start(deps, plan);
    const event = await news.next(eager ? eagerVerdictWaitMs : 0);
    // A worker elsewhere may be away for long: its jobs wait in Temporal, not for this process.
    leave();
    const told = event?.event === 'refused' ? event.refusal : null;
    const refusal = event === null ? await findRefusal(deps, plan) : told;
    if (refusal) {
      hold.refused();
      throwRefusal(refusal);
    }
    return news;
  } catch (error) {
    news.end();
    throw error;
  }
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

/** Returns at the news that the job ended, or when the time is up. */
async function untilEnd(news: JobSubscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let leftMs = waitMs; leftMs > 0; leftMs = deadlineAtMs - performance.now()) {
    const event = await news.next(leftMs);
    if (event === null || event.event === 'done') return;
  }
}

/**
 * The refusal of a workflow of which nothing is heard; null: it has reserved.
 * @throws GatewayError SERVICE_UNAVAILABLE when it has done neither in time
 */
async function findRefusal(deps: AdmissionDeps, plan: JobPlan): Promise<Refusal | null> {
  const leaving = new AbortController();
  const { signal } = leaving;
  const reserved = untilReserved(deps.reads, plan, signal).then(() => null);
  const refused = deps.client
    .withAbortSignal(signal, () =>
      deps.client.workflow.getHandle(workflowIdOf(plan.jobId)).result(),
    )
    .then(
      (outcome: JobOutcome) => outcome.refusal,
      () => null,
    );
  const undecided = sleep(deps.config.VERDICT_WAIT_MS, undefined, { signal }).then(() => {
    throw startFailed(plan, 'The job waits for a worker.');
  });
  try {
    return await Promise.race([reserved, refused, undecided]);
  } finally {
    // The end of a job can be an hour away: nobody listens for it any more.
    leaving.abort();
  }
}

/** What is told of a job that was started and may run all the same: its id, and when to ask again. */
function startFailed(plan: JobPlan, message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVICE_UNAVAILABLE', message, {
    retryAfterSeconds: 2,
    body: { jobId: plan.jobId },
    ...(cause !== undefined && { cause }),
  });
}

/** Starts the workflow; a second start of the same job finds the first. */
async function start(deps: AdmissionDeps, plan: JobPlan): Promise<{ eager: boolean }> {
  try {
    const handle = await deps.client.withDeadline(Date.now() + startTimeoutMs, () =>
      deps.client.workflow.start(plan.type, {
        workflowId: workflowIdOf(plan.jobId),
        taskQueue: studioTaskQueue(deps.config.TASK_QUEUE_PREFIX),
        args: [plan],
        requestEagerStart: deps.eager,
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowIdConflictPolicy: 'USE_EXISTING',
        ...describeJob(plan),
        priority: { fairnessKey: plan.organizationId },
      }),
    );
    return { eager: handle.eagerlyStarted };
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return { eager: false };
    if (error instanceof ServiceError)
      throw startFailed(plan, 'The job could not be started.', error);
    throw error;
  }
}

/** Looks for the job's row until it is there, or until nobody waits for it. */
async function untilReserved(reads: JobReads, plan: JobPlan, signal: AbortSignal): Promise<void> {
  for (let waitMs = 20; !signal.aborted; waitMs = Math.min(waitMs * 2, 500)) {
    if (await reads.read(plan.organizationId, plan.jobId)) return;
    await sleep(waitMs, undefined, { signal });
  }
}
