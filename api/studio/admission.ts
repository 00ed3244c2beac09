/**
 * Starts, awaits and cancels jobs. The workflow reserves the credits, so no reservation exists
 * without a workflow. The transaction that reserves the credits, or rejects the job, notifies every
 * API process (docs/decisions/0002).
 */
import { ServiceError, type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { JobReads, JobRecord } from '../../jobs/records/job-reads.ts';
import { throwRefusal } from '../../ledger/refusals.ts';
import { GatewayError } from '../../domain/errors.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import type { JobPlan } from '../../jobs/job-plan.ts';
import type { Refusal } from '../../jobs/ledger-verdicts.ts';
import type { Config } from '../../platform/config.ts';
import { correlate } from '../../platform/correlation.ts';
import { createFairLimiter } from '../../platform/fair-limiter.ts';
import { createFairShare } from '../../platform/fair-share.ts';
import { callTemporal } from '../../platform/temporal.ts';
import type { Hold } from '../idempotency/holds.ts';
import type { JobUpdates, JobSubscription } from './job-updates.ts';
import { startWorkflow } from './workflow-start.ts';

interface AdmissionDeps {
  client: Client;
  updates: JobUpdates;
  reads: JobReads;
  config: Config;
}

/** Job to wait for. */
interface AwaitedJob {
  organizationId: string;
  jobId: string;
  /**
   * Subscription that began before the job started, so the end of the job is awaited before its row
   * is read first; null or absent: the row is read at once.
   */
  updates?: JobSubscription | null;
}

/** Functions to call before a start is sent, and when the ledger has rejected the started job. */
type StartHold = Pick<Hold, 'starting' | 'refused'>;

/** Time without an event after which the job's row is read, in milliseconds. */
const rowPollMs = 1000;
/**
 * Longest time that a cancel request waits for the end of the job before it returns the current
 * state, in milliseconds.
 */
const cancelWaitMs = 5000;

/** Start of Studio jobs. */
export type Admission = ReturnType<typeof createAdmission>;

/**
 * Makes the function that starts a workflow. At most TEMPORAL_STARTS_MAX starts are in flight at a
 * time, shared fairly between organizations, because more parallel starts would only delay each
 * other. If the limiter rejects a request, no start was sent.
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

/** Makes the functions that start, await and cancel jobs. */
export function createAdmission(deps: AdmissionDeps) {
  const startInTurn = createStartInTurn(deps);
  const waiting = createFairShare(deps.config.SYNC_WAITERS_MAX);

  return {
    /**
     * Starts the workflow, waits until the credits are reserved, and returns a subscription to the
     * events of the job, which began before the start. The caller of this function must end the
     * subscription.
     * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED,
     * WINDOW_EXHAUSTED, SERVICE_UNAVAILABLE, REQUEST_IN_PROGRESS
     */
    async admit(plan: JobPlan, hold: StartHold): Promise<JobSubscription> {
      correlate({ jobId: plan.jobId, workflowId: workflowIdOf(plan.jobId) });
      const updates = deps.updates.subscribe(plan.jobId);
      try {
        await startInTurn(plan, hold);
        const refusal = await awaitVerdict(deps, plan, updates);
        if (refusal) {
          hold.refused();
          throwRefusal(refusal);
        }
        return updates;
      } catch (error) {
        updates.end();
        throw error;
      }
    },

    /**
     * Waits like `awaitEnd`, for a synchronous request. Returns at once if too many requests of the
     * organization wait (`SYNC_WAITERS_MAX`), so that the response is 202.
     */
    async awaitByFew(job: AwaitedJob, waitMs: number): Promise<JobRecord | null> {
      const leave = waitMs > 0 ? waiting.take(job.organizationId) : null;
      if (!leave) return awaitEnd(deps, job, 0);
      try {
        return await awaitEnd(deps, job, waitMs);
      } finally {
        leave();
      }
    },

    /**
     * Waits until the job ends, at most `waitMs` milliseconds, or until the process stops; returns
     * the job's row, or null if it has none.
     */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /** Requests the cancellation of a job (`cancel`). */
    cancel: (organizationId: string, job: JobRecord) => cancel(deps, organizationId, job),

    /** Returns whether the process is stopping, so that no request may wait. */
    isDraining: () => deps.updates.isDraining,
  };
}

/**
 * Requests the cancellation of the workflow, and returns the job when it has ended, at the latest
 * after five seconds. The response of the provider decides whether the job is canceled.
 * @throws GatewayError JOB_ALREADY_DONE; ServiceError if Temporal does not respond
 */
async function cancel(
  deps: AdmissionDeps,
  organizationId: string,
  job: JobRecord,
): Promise<JobRecord> {
  if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
  try {
    const handle = deps.client.workflow.getHandle(workflowIdOf(job.id));
    await callTemporal(deps.client, () => handle.cancel());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  return (await awaitEnd(deps, { organizationId, jobId: job.id }, cancelWaitMs)) ?? job;
}

async function awaitEnd(
  deps: Pick<AdmissionDeps, 'updates' | 'reads'>,
  { organizationId, jobId, updates: subscription }: AwaitedJob,
  waitMs: number,
): Promise<JobRecord | null> {
  const updates = subscription ?? deps.updates.subscribe(jobId);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    if (subscription) await untilEnd(subscription, waitMs);
    for (;;) {
      const job = await deps.reads.read(organizationId, jobId);
      const leftMs = deadlineAtMs - performance.now();
      if (!job || job.status !== 'open' || leftMs <= 0 || deps.updates.isDraining) return job;
      await untilEnd(updates, leftMs);
    }
  } finally {
    updates.end();
  }
}

/** Waits for the event that the job has ended, at most `waitMs` milliseconds. */
async function untilEnd(updates: JobSubscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let leftMs = waitMs; leftMs > 0; leftMs = deadlineAtMs - performance.now()) {
    const event = await updates.next(leftMs);
    if (event === null || event.event === 'done') return;
  }
}

/**
 * Waits for the verdict of the ledger on a started job: returns the refusal, or null if its credits
 * are reserved. If the event is lost with a connection, the row of the job shows the reservation. A
 * rejected job has no row; a repeated request with the same Idempotency-Key starts it again, and
 * receives an event.
 * @throws GatewayError SERVICE_UNAVAILABLE with the job's id if there is neither an event nor a row
 * within VERDICT_WAIT_MS
 */
async function awaitVerdict(
  { config, reads }: AdmissionDeps,
  plan: JobPlan,
  updates: JobSubscription,
): Promise<Refusal | null> {
  const deadlineAtMs = performance.now() + config.VERDICT_WAIT_MS;
  for (;;) {
    const leftMs = deadlineAtMs - performance.now();
    if (leftMs <= 0) throw startFailed(plan, 'The job waits for a worker.');
    const event = await updates.next(Math.min(rowPollMs, leftMs));
    if (event) return event.event === 'refused' ? event.refusal : null;
    if (await reads.read(plan.organizationId, plan.jobId)) return null;
  }
}

/**
 * Makes the error for a request whose job may nevertheless run; the response contains the job's id.
 */
function startFailed(plan: JobPlan, message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVICE_UNAVAILABLE', message, {
    retryAfterSeconds: 2,
    body: { jobId: plan.jobId },
    ...(cause !== undefined && { cause }),
  });
}

async function start(deps: AdmissionDeps, plan: JobPlan): Promise<void> {
  try {
    await startWorkflow(deps, plan);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw startFailed(plan, 'The job could not be started.', error);
  }
}
