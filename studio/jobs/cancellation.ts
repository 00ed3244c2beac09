/** Cancels a job for its caller or an operator. */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import type { JobRecord } from './job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import { callTemporal } from '../../platform/temporal.ts';
import type { JobWaits } from './job-waits.ts';

/** Maximum time that a cancel request waits for the job to end, in milliseconds. */
const cancelWaitMs = 5000;

/**
 * Requests cancellation of the workflow, waits up to five seconds for the job to end, and returns
 * the job. The provider decides whether the job is canceled or still completes.
 * @throws GatewayError JOB_ALREADY_DONE; ServiceError if Temporal does not respond
 */
export async function cancelJob(
  { client, jobWaits }: { client: Client; jobWaits: JobWaits },
  job: JobRecord,
): Promise<JobRecord> {
  if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
  const { id: jobId, organization_id: organizationId } = job;
  try {
    const handle = client.workflow.getHandle(jobWorkflowId(jobId));
    await callTemporal(client, () => handle.cancel());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  return (await jobWaits.awaitEnd({ organizationId, jobId }, cancelWaitMs)) ?? job;
}
