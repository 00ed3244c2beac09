/**
 * Settling a job whose workflow is gone, by evidence: the provider is asked by the recorded operations.
 * What may still be delivered is not released but taken up again by a new run of the same plan, every step
 * of which is idempotent by the job's id; what the provider certainly does not deliver is released.
 */
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { z } from 'zod';
import type { OverseenJob } from '../../activities/jobs/job-overview.ts';
import type { JobReads } from '../../activities/jobs/job-reads.ts';
import type { Inputs } from '../../activities/inputs/inputs.ts';
import type { Ledger } from '../../activities/ledger/ledger.ts';
import type { CallFinding, StatusChecks } from '../../activities/calls/status-checks.ts';
import { ownerOf } from '../../activities/jobs/job-owner.ts';
import { releaseLostJob } from '../../activities/jobs/job-moves.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import { planVersion, type JobPlan } from '../../jobs/job-plan.ts';
import { findCapability } from '../../studio/registry.ts';
import { studioTaskQueue, workflowIdOf } from '../../jobs/contract.ts';
import { describeJob, completePlan } from './planner.ts';

/** What was done, and by which evidence. */
export interface Resettlement {
  /** `taken_up`: a new run of the workflow brings the job to its end. */
  decision: 'taken_up' | 'released' | 'already_settled';
  findings: CallFinding[];
}

/** Settles abandoned jobs. */
export interface Resettle {
  /**
   * @param release release also what the provider may still deliver, when it cannot be taken up
   * @throws GatewayError JOB_ALREADY_DONE, JOB_RUNNING, OUTCOME_UNDECIDED
   */
  (job: OverseenJob, release: boolean): Promise<Resettlement>;
}

interface ResettleDeps {
  config: Config;
  client: Client;
  ledger: Ledger;
  statusChecks: StatusChecks;
  reads: JobReads;
  inputs: Inputs;
}

const planHead = z.looseObject({ jobId: z.string(), planVersion: z.literal(planVersion) });

/** Verdicts after which nothing can come any more. */
const final = new Set(['not_sent', 'failed', 'canceled']);

/** See `Resettle`. */
export function createResettle(deps: ResettleDeps): Resettle {
  return async (job, release) => {
    if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
    const owner = await ownerOf(deps.client, job.id);
    if (owner === 'running') throw new GatewayError('JOB_RUNNING');
    const findings = await deps.statusChecks.ofJob(job.id);
    if (findings.every(({ verdict }) => final.has(verdict))) {
      return { decision: await releaseLost(deps.ledger, job), findings };
    }
    const plan = (await planOfHistory(deps.client, job.id)) ?? (await planAnew(deps, job));
    if (plan) {
      await takeUp(deps, plan);
      return { decision: 'taken_up', findings };
    }
    if (release) return { decision: await releaseLost(deps.ledger, job), findings };
    throw new GatewayError('OUTCOME_UNDECIDED', undefined, { body: { findings } });
  };
}

async function releaseLost(
  ledger: Ledger,
  job: OverseenJob,
): Promise<'released' | 'already_settled'> {
  const settled = await releaseLostJob(ledger, job);
  return settled.verdict === 'settled' ? 'released' : 'already_settled';
}

/** The plan as the last run was given it; null when the server has forgotten that run. */
async function planOfHistory(client: Client, jobId: string): Promise<JobPlan | null> {
  try {
    const { events } = await client.workflow.getHandle(workflowIdOf(jobId)).fetchHistory();
    const started = events?.[0]?.workflowExecutionStartedEventAttributes;
    const [plan] = await decodeArrayFromPayloads(
      client.options.loadedDataConverter,
      started?.input?.payloads,
    );
    return isPlanOf(jobId, plan) ? plan : null;
  } catch {
    return null;
  }
}

/** It was written by this API, and its version stands for its shape. */
function isPlanOf(jobId: string, plan: unknown): plan is JobPlan {
  return planHead.safeParse(plan).data?.jobId === jobId;
}

/** The plan made again from the request; null when it does not come to the price that was reserved. */
async function planAnew(deps: ResettleDeps, job: OverseenJob): Promise<JobPlan | null> {
  const capability = findCapability(job.type);
  const record = await deps.reads.read(job.organizationId, job.id);
  if (!capability || !record) return null;
  try {
    const draft = await deps.inputs.prepare(capability.plan(record.request), job.organizationId);
    if (draft.calls.some((call) => typeof call.unitPriceUsd !== 'number')) return null;
    const plan = completePlan(deps.config, {
      jobId: job.id,
      requestId: record.request_id,
      caller: { organizationId: job.organizationId, keyId: job.keyId },
      capability,
      request: record.request,
      draft,
      metadata: record.metadata,
      // A webhook that is owed is started by the sweeper, whoever settled.
      tells: false,
    });
    return plan.priceMicro === job.reserved ? plan : null;
  } catch {
    return null;
  }
}

/** Starts a new run; of two at the same time the second finds the first. */
async function takeUp({ client, config }: ResettleDeps, plan: JobPlan): Promise<void> {
  await client.workflow.start(plan.type, {
    workflowId: workflowIdOf(plan.jobId),
    taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
    args: [plan],
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
    priority: { fairnessKey: plan.organizationId },
    ...describeJob(plan),
  });
}
