/** Cancellation of a job by its caller or an operator. */
import { WorkflowNotFoundError } from '@temporalio/client';
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import { callTemporal } from '../../platform/temporal.ts';
import type { Composition } from '../composition.ts';

/**
 * Longest time that a cancel request waits for the end of the job before it returns the current
 * state, in milliseconds.
 */
const cancelWaitMs = 5000;

/**
 * Requests the cancellation of the workflow, and returns the job when it has ended, at the latest
 * after five seconds. The response of the provider decides whether the job is canceled.
 * @throws GatewayError JOB_ALREADY_DONE; ServiceError if Temporal does not respond
 */
export async function cancelJob(
  { client, jobWaits }: Pick<Composition, 'client' | 'jobWaits'>,
  job: JobRecord,
): Promise<JobRecord> {
  if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
  const { id: jobId, organization_id: organizationId } = job;
  try {
    const handle = client.workflow.getHandle(workflowIdOf(jobId));
    await callTemporal(client, () => handle.cancel());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  return (await jobWaits.awaitEnd({ organizationId, jobId }, cancelWaitMs)) ?? job;
}
