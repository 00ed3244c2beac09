/** Ends jobs: cancels one for its caller or an operator, and settles one whose workflow is lost. */
import type { Client } from '@temporalio/client';
import type { JobRecord, JobOverview } from './job-reads.ts';
import { GatewayError, errorTable } from '../../domain/errors.ts';
import type { Waits } from '../../executions/updates.ts';
import { buildRelease, type Ledger } from '../../ledger/ledger.ts';
import type { CallChecker, CallFinding } from './status-checks.ts';
import { hasRunningWorkflow } from '../../executions/workflow-state.ts';
import type { SettleResult } from '../../domain/credits.ts';
import type { Config } from '../../platform/config.ts';
import { requestCancel, startWorkflow } from './job-execution.ts';

/** Maximum time that a cancel request waits for the job to end, in milliseconds. */
const cancelWaitMs = 5000;

/**
 * Requests cancellation of the workflow, waits up to five seconds for the job to end, and returns
 * the job. The provider decides whether the job is canceled or still completes.
 * @throws GatewayError JOB_ALREADY_DONE; ServiceError if Temporal does not respond
 */
export async function cancelJob(
  { client, jobWaits }: { client: Client; jobWaits: Waits<JobRecord> },
  job: JobRecord,
): Promise<JobRecord> {
  if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
  await requestCancel(client, job.id);
  return awaitCancel(jobWaits, job);
}

/** Waits up to five seconds for a canceled job to end, and returns the job. */
export async function awaitCancel(jobWaits: Waits<JobRecord>, job: JobRecord): Promise<JobRecord> {
  return (await jobWaits.awaitEnd(job, cancelWaitMs)) ?? job;
}

/** Decision about a job, with the status checks that it is based on. */
interface Resettlement {
  /** `taken_up`: a new run of the workflow continues the job. */
  decision: 'taken_up' | 'released' | 'already_settled';
  findings: CallFinding[];
}

interface Services {
  config: Config;
  client: Client;
  ledger: Ledger;
  checkCalls: CallChecker;
  jobOverview: JobOverview;
}

/** Results of status checks after which the provider can no longer deliver an output. */
const finalVerdicts = new Set(['not_sent', 'failed', 'canceled']);

/**
 * Releases or continues a job whose workflow no longer exists. If `release` is true, a job that
 * cannot be continued is released even if the provider may still deliver.
 * @throws GatewayError JOB_ALREADY_DONE if the job is settled
 * @throws GatewayError JOB_RUNNING if its workflow is running
 * @throws GatewayError OUTCOME_UNDECIDED if the provider may still deliver, the job cannot be
 * continued, and `release` is false
 */
export async function resettle(
  job: JobRecord,
  release: boolean,
  services: Services,
): Promise<Resettlement> {
  const { client, ledger, checkCalls, jobOverview } = services;
  if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
  if (await hasRunningWorkflow(client, job.id)) throw new GatewayError('JOB_RUNNING');
  const findings = await checkCalls(job.id);
  if (findings.every(({ verdict }) => finalVerdicts.has(verdict))) {
    return { decision: await releaseLost(ledger, job), findings };
  }
  const plan = await jobOverview.readPlan(job);
  if (plan) {
    await startWorkflow(services, plan);
    return { decision: 'taken_up', findings };
  }
  if (release) return { decision: await releaseLost(ledger, job), findings };
  throw new GatewayError('OUTCOME_UNDECIDED', undefined, { body: { findings } });
}

async function releaseLost(
  ledger: Ledger,
  job: JobRecord,
): Promise<'released' | 'already_settled'> {
  const { id, organizationId } = job;
  const settlement = await releaseLostJob(ledger, { id, organizationId });
  return settlement.verdict === 'settled' ? 'released' : 'already_settled';
}

/**
 * Releases the credits of a job whose workflow no longer exists, unless the job is already settled.
 */
export function releaseLostJob(
  ledger: Pick<Ledger, 'settle'>,
  { organizationId, id: jobId }: { organizationId: string; id: string },
): Promise<SettleResult> {
  const error = { code: 'JOB_LOST', message: errorTable.JOB_LOST.message } as const;
  return ledger.settle(buildRelease({ jobId, organizationId, status: 'failed', error }));
}
