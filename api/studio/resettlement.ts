/**
 * Settling a job whose workflow is gone, by evidence: the provider is asked by the recorded operations.
 * What may still be delivered is not released but taken up again by a new run of the same plan, every step
 * of which is idempotent by the job's id; what the provider certainly does not deliver is released.
 */
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { z } from 'zod';
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Ledger } from '../../activities/ledger/ledger.ts';
import type { CallFinding } from '../../activities/jobs/call-outcomes.ts';
import { ownerOf } from '../../activities/jobs/job-owner.ts';
import { releaseLostJob } from '../../activities/jobs/job-moves.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import { planVersion, type JobPlan } from '../../jobs/job-plan.ts';
import { findCapability } from '../../studio/registry.ts';
import { studioTaskQueue, workflowIdOf } from '../../jobs/contract.ts';
import { describeJob, completePlan } from './planner.ts';

/** What was done, and by which evidence. */
interface Resettlement {
  /** `taken_up`: a new run of the workflow brings the job to its end. */
  decision: 'taken_up' | 'released' | 'already_settled';
  findings: CallFinding[];
}

type Services = Pick<Composition, 'config' | 'client' | 'ledger' | 'statusChecks' | 'inputs'>;

const planHead = z.looseObject({ jobId: z.string(), planVersion: z.literal(planVersion) });

/** Verdicts after which nothing can come any more. */
const final = new Set(['not_sent', 'failed', 'canceled']);

/**
 * See the file's head. `release`: also what the provider may still deliver, when it cannot be taken up.
 * @throws GatewayError JOB_ALREADY_DONE, JOB_RUNNING, OUTCOME_UNDECIDED
 */
export async function resettle(
  job: JobRecord,
  release: boolean,
  services: Services,
): Promise<Resettlement> {
  const { client, ledger, statusChecks } = services;
  if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
  const owner = await ownerOf(client, job.id);
  if (owner === 'running') throw new GatewayError('JOB_RUNNING');
  const findings = await statusChecks.ofJob(job.id);
  if (findings.every(({ verdict }) => final.has(verdict))) {
    return { decision: await releaseLost(ledger, job), findings };
  }
  const plan = (await planOfHistory(client, job.id)) ?? (await planAnew(services, job));
  if (plan) {
    await takeUp(services, plan);
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
  const settled = await releaseLostJob(ledger, { id, organizationId });
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
async function planAnew(deps: Services, job: JobRecord): Promise<JobPlan | null> {
  const capability = findCapability(job.type);
  if (!capability) return null;
  const { request, organization_id: organizationId } = job;
  try {
    const draft = await deps.inputs.prepare(capability.plan(request), organizationId);
    if (draft.calls.some((call) => typeof call.unitPriceUsd !== 'number')) return null;
    const plan = completePlan(deps.config, {
      jobId: job.id,
      requestId: job.request_id,
      caller: { organizationId, keyId: job.key_id },
      capability,
      request,
      draft,
      metadata: job.metadata,
      // A webhook that is owed is started by the sweeper, whoever settled.
      tells: false,
    });
    return plan.priceMicro === job.reserved ? plan : null;
  } catch {
    return null;
  }
}

/** Starts a new run; of two at the same time the second finds the first. */
async function takeUp({ client, config }: Services, plan: JobPlan): Promise<void> {
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
