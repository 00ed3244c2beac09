/**
 * Ends a job: charges or releases its credits, starts the delivery of the caller's webhook, and
 * returns the result of the workflow.
 */
import { ApplicationFailure, CancelledFailure, upsertSearchAttributes } from '@temporalio/workflow';
import type { EarlierSettlement } from '../activities/reserve.ts';
import type { StepErrors } from './pipeline.ts';
import { searchAttributes, type JobOutcome } from '../domain/job-contract.ts';
import { addLines, sumLines, type CallOutputs, type JobPlan } from '../domain/job-plan.ts';
import type { Rejection, SettleResult } from '../domain/credits.ts';
import { toPublicError } from './failures.ts';
import { formatCredits } from '../domain/credits.ts';
import type { RunningJob } from './running-job.ts';
import { runStep } from './steps.ts';
import { startWebhookDelivery } from './webhook-delivery.ts';

/** Charges the delivered outputs and ends the job. */
export async function charge(job: RunningJob, outputs: CallOutputs[]): Promise<JobOutcome> {
  const { jobId, organizationId, parentJobId } = job.plan;
  // The prices of a pipeline's calls may be measured while it runs.
  const priced = job.plan.steps ? outputs : addLines(job.plan.calls, outputs);
  const { chargeMicro, costMicro } = sumLines(priced);
  const summary = formatCredits(chargeMicro);
  job.progress.setPhase(`charging ${summary}`);
  const settleResult = await runStep(job, { name: 'charge', summary }, (activities) =>
    activities.charge({
      jobId,
      organizationId,
      chargeMicro,
      costMicro,
      outputs: priced,
      ...(parentJobId !== undefined && { parentJobId }),
    }),
  );
  return endCharged(job, settleResult);
}

/** Ends a job after the step `charge`. */
async function endCharged(job: RunningJob, settleResult: SettleResult): Promise<JobOutcome> {
  await startWebhookDelivery(job.plan);
  // If the job was not charged, the sweeper has already released its credits as those of a lost
  // job.
  if (settleResult.verdict === 'not_reserved' || settleResult.state !== 'charged') {
    return endReleased(job, { status: 'failed', errorCode: 'JOB_LOST' });
  }
  const chargedMicro = settleResult.charged;
  job.progress.setPhase(`charged ${formatCredits(chargedMicro)}`);
  return recordOutcome(job.plan, {
    status: 'completed',
    billing: 'charged',
    reason: null,
    chargedMicro,
  });
}

/**
 * Ends a job that was already settled by an earlier run of its workflow or by the sweeper. For a
 * charged job, the step `charge` is repeated: it changes nothing and returns the charged amount.
 */
export async function endSettled(job: RunningJob, earlier: EarlierSettlement): Promise<JobOutcome> {
  return earlier.status === 'completed' ? charge(job, []) : endReleased(job, earlier);
}

function endReleased(job: RunningJob, { status, errorCode }: EarlierSettlement): JobOutcome {
  job.progress.setPhase(`released ${formatCredits(job.plan.priceMicro)}: ${errorCode}`);
  return recordOutcome(job.plan, { status, billing: 'released', reason: errorCode });
}

/** Ends a job whose reservation the ledger rejected. */
export function endRejected({ plan, progress }: RunningJob, rejection: Rejection): JobOutcome {
  const { verdict: reason } = rejection;
  progress.setPhase(`rejected: ${reason}`);
  return recordOutcome(plan, { status: 'rejected', billing: 'none', reason, rejection });
}

/**
 * Releases the reserved credits of a job, if there are any, and ends the job with a failure.
 * Returns an outcome only if the job was already charged.
 * @throws ApplicationFailure with the code that the caller receives; CancelledFailure if the job
 * was canceled
 */
export async function release(
  job: RunningJob,
  error: unknown,
  stepErrors: StepErrors | undefined,
): Promise<JobOutcome> {
  const { plan, progress } = job;
  const { jobId, organizationId } = plan;
  const { code, message } = toPublicError(error);
  const status = code === 'CANCELED' ? 'canceled' : 'failed';
  const summary = `${formatCredits(plan.priceMicro)}: ${code}`;
  progress.setPhase(`releasing ${summary}`);
  const settleResult = await runStep(job, { name: 'release', summary }, (activities) =>
    activities.release({
      jobId,
      organizationId,
      status,
      error: { code, message },
      ...(stepErrors && { stepErrors }),
    }),
  );
  const isReserved = settleResult.verdict !== 'not_reserved';
  // If an earlier run of the workflow has charged the job, the job ends as completed.
  if (isReserved && settleResult.state === 'charged') return endCharged(job, settleResult);
  if (isReserved) await startWebhookDelivery(plan);
  return endUndelivered(job, {
    status,
    error: { code, message },
    billing: isReserved ? 'released' : 'none',
    amount: isReserved ? `released ${formatCredits(plan.priceMicro)}` : 'nothing was reserved',
  });
}

/** End of a job that failed or was canceled. `amount`: its charge or release in words. */
interface UndeliveredEnd {
  status: 'failed' | 'canceled';
  error: { code: string; message: string };
  billing: JobOutcome['billing'];
  amount: string;
}

/** Ends the workflow of a job that failed or was canceled. @throws ApplicationFailure, CancelledFailure */
export function endUndelivered(
  { plan, progress }: RunningJob,
  { status, error: { code, message }, billing, amount }: UndeliveredEnd,
): never {
  recordOutcome(plan, { status, billing, reason: code });
  const result = `${amount}: ${code}, ${message}`;
  progress.setPhase(result);
  // Temporal stores no message for a canceled workflow, but Current Details still show it.
  if (status === 'canceled') throw new CancelledFailure(result);
  throw ApplicationFailure.create({ message: result, type: code, nonRetryable: true });
}

type JobEnd = Pick<JobOutcome, 'status' | 'billing' | 'reason'> & Partial<JobOutcome>;

/** Sets the search attributes for the end of the job; returns the workflow's result. */
export function recordOutcome(plan: JobPlan, end: JobEnd): JobOutcome {
  upsertSearchAttributes([
    { key: searchAttributes.jobStatus, value: end.status },
    { key: searchAttributes.billingState, value: end.billing },
    ...(end.reason === null ? [] : [{ key: searchAttributes.errorCode, value: end.reason }]),
  ]);
  return { jobId: plan.jobId, chargedMicro: 0, ...end };
}
