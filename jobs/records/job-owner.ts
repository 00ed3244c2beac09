/** The workflow that owns a job: whether it lives, asked of Temporal by whoever does not trust it. */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { checkNow, workflowIdOf } from '../contract.ts';

/** `closed` = it ended, however; `missing` = the server knows of none. */
export type JobOwner = 'running' | 'closed' | 'missing';

/** What is known of the workflow of a job. */
export interface JobWorkflow {
  state: JobOwner;
  /** Temporal's status, e.g. `TERMINATED`; null when missing. */
  status: string | null;
}

/** @throws ServiceError when the server cannot be asked */
export async function workflowOf(client: Client, jobId: string): Promise<JobWorkflow> {
  try {
    const { status } = await client.workflow.getHandle(workflowIdOf(jobId)).describe();
    const runs = status.name === 'RUNNING' || status.name === 'PAUSED';
    return { state: runs ? 'running' : 'closed', status: status.name };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { state: 'missing', status: null };
    throw error;
  }
}

/** @throws ServiceError when the server cannot be asked */
export async function ownerOf(client: Client, jobId: string): Promise<JobOwner> {
  return (await workflowOf(client, jobId)).state;
}

/** Asks a job's workflow to check its calls now; false when none runs. */
export async function askToCheck(client: Client, jobId: string): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowIdOf(jobId)).signal(checkNow);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
