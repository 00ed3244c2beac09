/**
 * End of a job: the charge or the release of its credits, the caller's webhook, and the result of
 * the workflow.
 */
import { ApplicationFailure, CancelledFailure, upsertSearchAttributes } from '@temporalio/workflow';
import type { SettledBefore } from '../activities/reserve.ts';
import { searchAttributes, type JobOutcome } from '../jobs/contract.ts';
import { chargeMicroOf } from '../jobs/charge-rule.ts';
import type { CallOutputs, JobPlan } from '../jobs/job-plan.ts';
import type { SettleVerdict } from '../jobs/ledger-verdicts.ts';
import { publicErrorOf } from './public-errors.ts';
import { creditsOf } from './row-texts.ts';
import type { RunningJob } from './running-job.ts';
import { run } from './steps.ts';
import { startWebhookDelivery } from './webhook-start.ts';

/** Charges the delivered outputs, and ends the job. */
export async function charge(job: RunningJob, outputs: CallOutputs[]): Promise<JobOutcome> {
  const { jobId, organizationId } = job.plan;
  const chargeMicro = chargeMicroOf(job.plan, outputs);
  const summary = creditsOf(chargeMicro);
  job.progress.job(`charging ${summary}`);
  const settled = await run(job, { verb: 'charge', summary }, (activities) =>
    activities.charge({ jobId, organizationId, chargeMicro, outputs }),
  );
  return finish(job, settled);
}

async function finish(job: RunningJob, settled: SettleVerdict): Promise<JobOutcome> {
  await startWebhookDelivery(job.plan);
  // The sweeper has released the job as lost.
  if (settled.verdict === 'not_reserved' || settled.state !== 'charged') {
    return endReleased(job, { status: 'failed', errorCode: 'JOB_LOST' });
  }
  const chargedMicro = settled.charged;
  job.progress.job(`charged ${creditsOf(chargedMicro)}`);
  return outcome(job.plan, {
    status: 'completed',
    billing: 'charged',
    reason: null,
    chargedMicro,
  });
}

/**
 * Ends a job that an earlier run of its workflow or the sweeper has settled. A repeated charge
 * changes nothing and returns the charged amount.
 */
export async function endSettled(job: RunningJob, before: SettledBefore): Promise<JobOutcome> {
  return before.status === 'completed' ? charge(job, []) : endReleased(job, before);
}

function endReleased(job: RunningJob, { status, errorCode }: SettledBefore): JobOutcome {
  job.progress.job(`released ${creditsOf(job.plan.priceMicro)}: ${errorCode}`);
  return outcome(job.plan, { status, billing: 'released', reason: errorCode });
}

/** Ends a job whose reservation was refused. */
export function refuse({ plan, progress }: RunningJob, reason: string): JobOutcome {
  progress.job(`refused: ${reason}`);
  return outcome(plan, { status: 'refused', billing: 'none', reason });
}

/**
 * Releases the credits and fails the job. A job without a reservation has nothing to release.
 * @throws ApplicationFailure with the code that the caller receives; CancelledFailure
 */
export async function release(job: RunningJob, error: unknown): Promise<JobOutcome> {
  const { plan, progress } = job;
  const { jobId, organizationId } = plan;
  const { code, message } = publicErrorOf(error);
  const status = code === 'CANCELED' ? 'canceled' : 'failed';
  const summary = `${creditsOf(plan.priceMicro)}: ${code}`;
  progress.job(`releasing ${summary}`);
  const settled = await run(job, { verb: 'release', summary }, (activities) =>
    activities.release({ jobId, organizationId, status, error: { code, message } }),
  );
  const isReserved = settled.verdict !== 'not_reserved';
  // An earlier run of the workflow has charged the job, which is therefore completed.
  if (isReserved && settled.state === 'charged') return finish(job, settled);
  if (isReserved) await startWebhookDelivery(plan);
  outcome(plan, { status, billing: isReserved ? 'released' : 'none', reason: code });
  const billing = isReserved ? `released ${creditsOf(plan.priceMicro)}` : 'nothing was reserved';
  const result = `${billing}: ${code}, ${message}`;
  progress.job(result);
  // Temporal stores no message of a canceled workflow; Current Details contain it.
  if (status === 'canceled') throw new CancelledFailure(result);
  throw ApplicationFailure.create({ message: result, type: code, nonRetryable: true });
}

type End = Pick<JobOutcome, 'status' | 'billing' | 'reason'> & Partial<JobOutcome>;

/** Returns the workflow's result and sets it as search attributes. */
function outcome(plan: JobPlan, end: End): JobOutcome {
  upsertSearchAttributes([
    { key: searchAttributes.jobStatus, value: end.status },
    { key: searchAttributes.billingState, value: end.billing },
    ...(end.reason === null ? [] : [{ key: searchAttributes.errorCode, value: end.reason }]),
  ]);
  return { jobId: plan.jobId, chargedMicro: 0, ...end };
}
