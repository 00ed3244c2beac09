/**
 * Starts jobs and waits for the verdict of the ledger. The workflow reserves the credits, so no
 * reservation exists without a workflow. The transaction that reserves the credits, or rejects the
 * job, notifies every API process (docs/decisions/0002).
 */
import { ServiceError, type Client } from '@temporalio/client';
import type { JobReads } from '../../jobs/records/job-reads.ts';
import { throwRefusal } from '../../ledger/refusals.ts';
import { GatewayError } from '../../domain/errors.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import type { JobPlan } from '../../jobs/job-plan.ts';
import type { Refusal } from '../../jobs/ledger-verdicts.ts';
import type { Config } from '../../platform/config.ts';
import { correlate } from '../../platform/correlation.ts';
import { createFairLimiter } from '../../platform/fair-limiter.ts';
import type { Hold } from '../idempotency/holds.ts';
import type { JobSubscription } from './job-topics.ts';
import type { JobUpdates } from './job-updates.ts';
import { startWorkflow } from './workflow-start.ts';

interface AdmissionDeps {
  client: Client;
  updates: JobUpdates;
  reads: JobReads;
  config: Config;
}

/** Functions to call before a start is sent, and when the ledger has rejected the started job. */
type StartHold = Pick<Hold, 'starting' | 'refused'>;

/** Time without an event after which the job's row is read, in milliseconds. */
const rowPollMs = 1000;

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

/** Makes the function that starts jobs. */
export function createAdmission(deps: AdmissionDeps) {
  const startInTurn = createStartInTurn(deps);
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
  };
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
