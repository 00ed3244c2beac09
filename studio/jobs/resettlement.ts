/**
 * Settles a job whose workflow no longer exists, after checking its provider operations. If the
 * provider can no longer deliver, the job's reservation is released. Otherwise a new workflow run
 * with the same plan continues the job. Each step of the workflow is idempotent by job id.
 */
import type { Client } from '@temporalio/client';
import type { JobOverview, JobRecord } from './job-reads.ts';
import { buildRelease, type Ledger } from '../../ledger/ledger.ts';
import type { CallChecker, CallFinding } from './status-checks.ts';
import { readWorkflow } from './job-workflow.ts';
import { errorTable, GatewayError } from '../../domain/errors.ts';
import type { SettleResult } from '../../domain/ledger-results.ts';
import type { Config } from '../../platform/config.ts';
import { startWorkflow } from './workflow-start.ts';

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
  const { state: owner } = await readWorkflow(client, job.id);
  if (owner === 'running') throw new GatewayError('JOB_RUNNING');
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
  const { id, organization_id: organizationId } = job;
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
