/** Reads and signals the workflow of a job through Temporal. */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { callTemporal } from '../../platform/temporal.ts';
import { checkNow, jobWorkflowId } from '../contract.ts';

/** State of a job's workflow. */
export interface JobWorkflow {
  /** `closed`: the workflow has ended. `missing`: Temporal has no workflow with this id. */
  state: 'running' | 'closed' | 'missing';
  /**
   * Workflow execution status in Temporal, for example `TERMINATED`; null if `state` is `missing`.
   */
  status: string | null;
}

/** Returns the state of a job's workflow. @throws ServiceError if Temporal cannot be reached */
export async function readWorkflow(client: Client, jobId: string): Promise<JobWorkflow> {
  try {
    const handle = client.workflow.getHandle(jobWorkflowId(jobId));
    const { status } = await callTemporal(client, () => handle.describe());
    const runs = status.name === 'RUNNING' || status.name === 'PAUSED';
    return { state: runs ? 'running' : 'closed', status: status.name };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { state: 'missing', status: null };
    throw error;
  }
}

/**
 * Returns whether the workflow of a job is running.
 * @throws ServiceError if Temporal cannot be reached
 */
export async function hasRunningWorkflow(client: Client, jobId: string): Promise<boolean> {
  return (await readWorkflow(client, jobId)).state === 'running';
}

/**
 * Signals the workflow of a job to check its calls immediately. Returns false if the workflow is
 * not running.
 */
export async function requestCheck(client: Client, jobId: string): Promise<boolean> {
  try {
    const handle = client.workflow.getHandle(jobWorkflowId(jobId));
    await callTemporal(client, () => handle.signal(checkNow));
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
