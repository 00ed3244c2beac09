/** Reads and signals the workflow of a job through Temporal. */
import {
  WorkflowNotFoundError,
  type Client,
  type WorkflowExecutionDescription,
} from '@temporalio/client';
import { z } from 'zod';
import { callTemporal } from '../../platform/temporal.ts';
import { checkNow, jobWorkflowId } from '../contract.ts';

/** Schema of the state of a job's workflow. */
export const jobWorkflow = z.object({
  state: z.enum(['running', 'closed', 'missing']).meta({
    description:
      '`closed`: the workflow has ended. `missing`: Temporal has no workflow with its id.',
  }),
  status: z.string().nullable().meta({
    description: 'Workflow execution status of Temporal, e.g. `TERMINATED`; null if unknown.',
  }),
  retries: z
    .array(
      z.object({
        activity: z.string().meta({ description: 'Activity type, e.g. `store`.' }),
        failures: z.int(),
        lastError: z.string(),
      }),
    )
    .meta({ description: 'Activities that have failed and that Temporal retries.' }),
});
/** State of a job's workflow. */
export type JobWorkflow = z.infer<typeof jobWorkflow>;

/** Returns the state of a job's workflow. @throws ServiceError if Temporal cannot be reached */
export async function readWorkflow(client: Client, jobId: string): Promise<JobWorkflow> {
  try {
    const handle = client.workflow.getHandle(jobWorkflowId(jobId));
    const { status, raw } = await callTemporal(client, () => handle.describe());
    const isRunning = status.name === 'RUNNING' || status.name === 'PAUSED';
    const retries = listRetries(raw.pendingActivities ?? []);
    return { state: isRunning ? 'running' : 'closed', status: status.name, retries };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return { state: 'missing', status: null, retries: [] };
    }
    throw error;
  }
}

/** Lists the pending activities of a workflow that have failed at least once. */
function listRetries(
  pending: NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>,
): JobWorkflow['retries'] {
  return pending.flatMap(({ activityType, attempt, lastFailure }) =>
    lastFailure
      ? [
          {
            activity: activityType?.name ?? 'activity',
            failures: Math.max(1, (attempt ?? 1) - 1),
            lastError: lastFailure.message ?? 'unknown',
          },
        ]
      : [],
  );
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
