/**
 * Keeps the workflows of executions: starts them, sends them requests, and checks by the rows of open
 * executions that their workflows still run. The id of a workflow is the id of the row, so a repeated
 * start finds the running workflow, and one that has ended may be started again.
 */
import {
  WorkflowNotFoundError,
  type Client,
  type WorkflowHandle,
  type WorkflowStartOptions,
} from '@temporalio/client';
import type { SignalDefinition } from '@temporalio/common';
import { studioTaskQueue, workflowTaskTimeout } from '../domain/job-contract.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import type { Config } from '../platform/config.ts';
import { withCorrelation, type Logger } from '../platform/logger.ts';
import { callTemporal } from '../platform/temporal.ts';
import { readWorkflow, type WorkflowState } from './workflow-state.ts';

/** Workflow of an execution, with the options that describe it to operators. */
type ExecutionStart = Pick<
  WorkflowStartOptions,
  'typedSearchAttributes' | 'staticSummary' | 'staticDetails' | 'memo' | 'priority'
> & {
  id: string;
  type: string;
  input: object;
  /** Signal that the workflow receives, whether this call starts it or it is already running. */
  signal?: SignalDefinition;
};

/**
 * Starts the workflow of an execution unless it is running.
 * @throws ServiceError if Temporal did not confirm the start; the workflow may be running
 */
export async function startExecution(
  { client, config }: { client: Client; config: Pick<Config, 'TASK_QUEUE_PREFIX'> },
  { id, type, input, signal, ...description }: ExecutionStart,
): Promise<void> {
  const options = {
    ...description,
    workflowId: id,
    taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
    args: [input],
    workflowTaskTimeout,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
  } as const;
  await callTemporal(client, async () => {
    if (signal) await client.workflow.signalWithStart(type, { ...options, signal });
    else await client.workflow.start(type, options);
  });
}

/**
 * Sends a request, such as a signal, to the workflow of an execution. Returns false if it is not
 * running.
 * @throws ServiceError if Temporal cannot be reached
 */
export async function requestOf(
  client: Client,
  id: string,
  send: (handle: WorkflowHandle) => Promise<unknown>,
): Promise<boolean> {
  try {
    await callTemporal(client, () => send(client.workflow.getHandle(id)));
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** Row of an open execution whose workflow must be checked. */
interface DueExecution {
  id: string;
  /** Milliseconds since a check first found no workflow; null if the last one found it. */
  missingForMs: number | null;
}

/** Kind of executions whose workflows the sweeper checks. */
interface KeptKind<Row extends DueExecution> {
  /** Name of the executions in log lines. */
  subject: string;
  listDue: () => Promise<readonly Row[]>;
  onRunning: (row: Row, workflow: WorkflowState) => Promise<unknown>;
  /** Handles a workflow that Temporal does not find, until the grace period has passed. */
  onMissing: (row: Row) => Promise<unknown>;
  /** Handles a workflow that has ended without the execution, or was missing for the grace period. */
  onEnded: (row: Row) => Promise<unknown>;
}

/**
 * Time for which a workflow must be missing before its execution is ended, in milliseconds. While a
 * Temporal server is restored, it may briefly not find a workflow that exists.
 */
export const missingGraceMs = 30_000;

/** Checks the workflows of the executions that are due. */
export async function sweepExecutions<Row extends DueExecution>(
  {
    client,
    logger,
    graceMs = missingGraceMs,
  }: { client: Client; logger: Logger; graceMs?: number },
  { subject, listDue, onRunning, onMissing, onEnded }: KeptKind<Row>,
): Promise<IsolationReport> {
  const check = async (row: Row): Promise<unknown> => {
    const workflow = await readWorkflow(client, row.id);
    const { state } = workflow;
    if (state === 'running') return onRunning(row, workflow);
    const isInGrace = state === 'missing' && (row.missingForMs ?? 0) < graceMs;
    return isInGrace ? onMissing(row) : onEnded(row);
  };
  const checkOne = (row: Row) => withCorrelation({ workflowId: row.id }, () => check(row));
  return forEachIsolated(await listDue(), checkOne, { subject, logger });
}
