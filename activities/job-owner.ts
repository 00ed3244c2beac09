/** Whether a workflow still owns a job: asked of Temporal by whoever does not trust it. */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';

/** `closed` = it ended, however; `missing` = the server knows of none. */
export type JobOwner = 'running' | 'closed' | 'missing';

/** @throws ServiceError when the server cannot be asked */
export async function ownerOf(client: Client, workflowId: string): Promise<JobOwner> {
  try {
    const { status } = await client.workflow.getHandle(workflowId).describe();
    return status.name === 'RUNNING' || status.name === 'PAUSED' ? 'running' : 'closed';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'missing';
    throw error;
  }
}
