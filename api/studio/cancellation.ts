/** Canceling a job: the workflow is asked, and its end awaited for a moment (design §4). */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import type { Admission } from './admission.ts';

/**
 * Cancels a job and answers with its state a moment later: the provider's verdict decides.
 * @throws GatewayError JOB_ALREADY_DONE
 */
export type CancelJob = (organizationId: string, job: JobRecord) => Promise<JobRecord>;

/** How long a cancel waits for the provider's verdict before it answers with what is known. */
const cancelWaitMs = 5000;

/** See `CancelJob`. */
export function createCancelJob(deps: { client: Client; admission: Admission }): CancelJob {
  return async (organizationId, job) => {
    if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
    try {
      await deps.client.workflow.getHandle(workflowIdOf(job.id)).cancel();
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
    const now = await deps.admission.awaitEnd({ organizationId, jobId: job.id }, cancelWaitMs);
    return now ?? job;
  };
}
