/** Reads the state of the workflow of an execution from Temporal. */
import {
  WorkflowNotFoundError,
  type Client,
  type WorkflowExecutionDescription,
} from '@temporalio/client';
import type { ProtoFailure } from '@temporalio/common';
import { optionalTsToDate } from '@temporalio/common/lib/time.js';
import { z } from 'zod';
import { callTemporal } from '../platform/temporal.ts';
import { findFailingTask } from './failing-workflows.ts';

/** Schema of the state of a workflow. */
export const workflowState = z.object({
  state: z.enum(['running', 'closed', 'missing']).meta({
    description:
      '`closed`: the workflow has ended. `missing`: Temporal has no workflow with its id.',
  }),
  status: z.string().nullable().meta({
    description: 'Workflow execution status of Temporal, e.g. `TERMINATED`; null if unknown.',
  }),
  resetAt: z.iso.datetime().nullable().meta({
    description: 'Time of the last reset of the workflow; null if it was never reset.',
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
  failingTask: z.object({ failures: z.int(), lastError: z.string() }).nullable().meta({
    description:
      'Workflow task that has failed and that Temporal retries; null if there is none. While it fails, the workflow does not continue.',
  }),
});
export type WorkflowState = z.infer<typeof workflowState>;

const toTime = (timestamp: Parameters<typeof optionalTsToDate>[0]): string | null =>
  optionalTsToDate(timestamp)?.toISOString() ?? null;

/** Returns the state of the workflow of an execution. @throws ServiceError if Temporal cannot be reached */
export async function readWorkflow(client: Client, id: string): Promise<WorkflowState> {
  try {
    const handle = client.workflow.getHandle(id);
    const { status, raw } = await callTemporal(client, () => handle.describe());
    const isRunning = status.name === 'RUNNING' || status.name === 'PAUSED';
    const retries = await listRetries(client, raw);
    const task = isRunning ? await findFailingTask(client, raw) : null;
    const failingTask = task && {
      failures: task.failures,
      lastError: await readMessage(client, task.failure),
    };
    return {
      state: isRunning ? 'running' : 'closed',
      status: status.name,
      resetAt: toTime(raw.workflowExtendedInfo?.lastResetTime),
      retries,
      failingTask,
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return { state: 'missing', status: null, resetAt: null, retries: [], failingTask: null };
    }
    throw error;
  }
}

const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/**
 * Describes the failing workflow task, or the activities that Temporal retries, except the wait for a
 * paused provider, which the state of the call describes.
 */
export function describeFailures({ failingTask, retries }: WorkflowState): string[] {
  if (failingTask) {
    const { failures, lastError } = failingTask;
    return [
      `its workflow task failed ${formatTimes(failures)} and is retried; error: ${lastError}`,
    ];
  }
  return retries
    .filter(({ activity }) => activity !== 'awaitResume')
    .map(
      ({ activity, failures, lastError }) =>
        `activity ${activity} failed ${formatTimes(failures)} and is retried; last error: ${lastError}`,
    );
}

/** Lists the pending activities of a workflow that have failed at least once. */
function listRetries(
  client: Client,
  { pendingActivities }: WorkflowExecutionDescription['raw'],
): Promise<WorkflowState['retries']> {
  const failed = (pendingActivities ?? []).filter(({ lastFailure }) => lastFailure);
  return Promise.all(
    failed.map(async ({ activityType, attempt, lastFailure }) => ({
      activity: activityType?.name ?? 'activity',
      failures: Math.max(1, (attempt ?? 1) - 1),
      lastError: await readMessage(client, lastFailure ?? {}),
    })),
  );
}

/** Returns the message of a failure, decrypted if it is encrypted and the key is configured. */
async function readMessage(
  client: Client,
  { message = null, encodedAttributes }: ProtoFailure,
): Promise<string> {
  const { payloadCodecs, failureConverter, payloadConverter } = client.options.loadedDataConverter;
  try {
    let payloads = encodedAttributes ? [encodedAttributes] : [];
    for (const codec of payloadCodecs.toReversed()) payloads = await codec.decode(payloads);
    const decoded = { message, encodedAttributes: payloads[0] ?? null };
    return failureConverter.failureToError(decoded, payloadConverter).message || 'unknown';
  } catch (error) {
    return `${message} (${String(error)})`;
  }
}

/**
 * Returns whether the workflow of an execution is running.
 * @throws ServiceError if Temporal cannot be reached
 */
export async function hasRunningWorkflow(client: Client, id: string): Promise<boolean> {
  return (await readWorkflow(client, id)).state === 'running';
}
