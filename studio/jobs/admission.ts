/**
 * Starts jobs and waits until the ledger reserves their credits or rejects them. Only the workflow
 * of a job reserves its credits, so every reservation has a workflow. The transaction that reserves
 * the credits or rejects the job notifies every API process (docs/decisions/0002).
 */
import { type Client, ServiceError } from '@temporalio/client';
import type { Rejection } from '../../domain/credits.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import type { JobReads } from './job-reads.ts';
import { throwRejection } from '../../ledger/ledger.ts';
import { GatewayError } from '../../domain/errors.ts';
import { correlate } from '../../platform/logger.ts';
import { createShares } from '../../platform/shares.ts';
import type { HeldClaim } from '../../ledger/claims.ts';
import type { Subscription, Updates } from '../../executions/updates.ts';
import { readOutcome, startWorkflow } from './job-execution.ts';

interface AdmissionDeps {
  client: Client;
  updates: Updates;
  reads: JobReads;
  config: Config;
}

/**
 * Functions of a claim that the start of a job needs. `recordStart` is called before the start,
 * `noteRejection` if the ledger rejects the job.
 */
type StartClaim = Pick<HeldClaim, 'recordStart' | 'noteRejection'>;

/** Time to wait for a job event before the job's row is read, in milliseconds. */
const rowPollMs = 1000;

/**
 * Time in milliseconds without any reservation after which a start gives its slot back, because
 * probably no worker runs: jobs then still start, and wait in Temporal. Until then, a start holds its
 * slot until its reservation, so that a busy worker slows the starts of the organization that keeps
 * it busy, and its jobs do not queue in the worker in front of those of others.
 */
const startHoldMs = 1000;

/**
 * Creates the function that starts workflows, and returns the function to call when the reservation
 * was decided, or is no longer awaited. At most TEMPORAL_STARTS_MAX starts are in progress at a time, because more would
 * only delay each other; organizations take turns. If a job gets no turn, no start request was sent
 * for it.
 */
function createFairStart(deps: AdmissionDeps) {
  const limiter = createShares(deps.config.TEMPORAL_STARTS_MAX);
  let decidedAtMs = -Infinity;
  return async (plan: JobPlan, claim: StartClaim): Promise<(isDecided: boolean) => void> => {
    const release = await limiter.enter(plan.organizationId, deps.config.TEMPORAL_START_WAIT_MS);
    if (!release) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many jobs are waiting to start.', {
        retryAfterSeconds: 2,
      });
    }
    try {
      await claim.recordStart();
      await startWorkflow(deps, plan).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        throw unconfirmedStartError(plan, 'The job could not be started.', error);
      });
    } catch (error) {
      release();
      throw error;
    }
    const startedAtMs = performance.now();
    let timer = setTimeout(releaseIfIdle, startHoldMs);
    function releaseIfIdle(): void {
      const leftMs = Math.max(startedAtMs, decidedAtMs) + startHoldMs - performance.now();
      if (leftMs <= 0) release?.();
      else timer = setTimeout(releaseIfIdle, leftMs);
    }
    return (isDecided) => {
      clearTimeout(timer);
      if (isDecided) decidedAtMs = performance.now();
      release();
    };
  };
}

/** Creates the function that starts jobs. */
export function createAdmission(deps: AdmissionDeps) {
  const startFairly = createFairStart(deps);
  return {
    /**
     * Starts the workflow, waits until the credits are reserved, and returns a subscription to the
     * job's events that was opened before the start. The caller of this function must end it.
     * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED,
     * WINDOW_EXHAUSTED, JOBS_MAX_REACHED, SERVICE_UNAVAILABLE, REQUEST_IN_PROGRESS
     */
    async admit(plan: JobPlan, claim: StartClaim): Promise<Subscription> {
      correlate({ jobId: plan.jobId, workflowId: jobWorkflowId(plan.jobId) });
      const updates = deps.updates.subscribe(plan.jobId);
      try {
        const endStart = await startFairly(plan, claim);
        let rejection: Rejection | null | undefined;
        try {
          rejection = await awaitReservation(deps, plan, updates);
        } finally {
          endStart(rejection !== undefined);
        }
        if (rejection) {
          claim.noteRejection();
          throwRejection(rejection);
        }
        return updates;
      } catch (error) {
        updates.end();
        throw error;
      }
    },
  };
}

/**
 * Waits until the ledger reserves the credits of a started job or rejects the job. Returns null if
 * the credits are reserved, otherwise the rejection. If a lost connection drops the event, the
 * job's row shows a reservation, and the result of the workflow a rejection, which has no row.
 * @throws GatewayError SERVICE_UNAVAILABLE with the job's id if none of them exists within
 * VERDICT_WAIT_MS
 */
async function awaitReservation(
  deps: AdmissionDeps,
  plan: JobPlan,
  updates: Subscription,
): Promise<Rejection | null> {
  const deadlineAtMs = performance.now() + deps.config.VERDICT_WAIT_MS;
  // Reads of the workflow become rarer, because thousands of jobs may wait for a worker.
  for (let polls = 1, readAtPoll = 1; ; polls += 1) {
    const remainingMs = deadlineAtMs - performance.now();
    if (remainingMs <= 0) throw unconfirmedStartError(plan, 'The job is waiting for a worker.');
    const event = await updates.next(Math.min(rowPollMs, remainingMs));
    if (event) return event.event === 'rejected' ? event.rejection : null;
    if (await deps.reads.read(plan.organizationId, plan.jobId)) return null;
    if (polls < readAtPoll) continue;
    readAtPoll *= 2;
    // After an error, the workflow is read again at a later poll.
    const outcome = await readOutcome(deps.client, plan.jobId).catch(() => null);
    if (outcome?.rejection) return outcome.rejection;
  }
}

/**
 * Returns the error for a job whose start was not confirmed. The job may still run, so the response
 * contains its id.
 */
function unconfirmedStartError(plan: JobPlan, message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVICE_UNAVAILABLE', message, {
    retryAfterSeconds: 2,
    body: { jobId: plan.jobId },
    ...(cause !== undefined && { cause }),
  });
}

export type Admission = ReturnType<typeof createAdmission>;
