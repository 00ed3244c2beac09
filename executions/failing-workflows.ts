/**
 * Workflows whose workflow task fails again and again, because the code diverges from the recorded
 * history or throws an error. Temporal retries such a task forever, so the workflow never ends.
 */
import type { Client, WorkflowExecutionDescription, WorkflowHandle } from '@temporalio/client';
import type { ProtoFailure } from '@temporalio/common';
import { studioTaskQueue } from '../domain/job-contract.ts';
import { forEachIsolated } from '../platform/background.ts';
import type { Logger } from '../platform/logger.ts';
import { callTemporal } from '../platform/temporal.ts';

/** Values of the enum `WorkflowTaskFailedCause` in temporal.api.enums.v1. */
const resetCause = 20;
/** The same enum: an unhandled failure, and nondeterminism. */
const failureCauses: ReadonlySet<unknown> = new Set([14, 24]);

/** Workflow task that has failed and that Temporal retries. */
export interface FailingTask {
  /** Number of attempts that have failed since the last one that succeeded. */
  failures: number;
  /**
   * Failure of the latest attempt in the history. A worker reports only the first of several equal
   * failures and lets the next attempts time out, which the history does not contain.
   */
  failure: ProtoFailure;
}

/** Returns the failing workflow task of a workflow; null if its task has not failed. */
export async function findFailingTask(
  client: Client,
  { pendingWorkflowTask, workflowExecutionInfo }: WorkflowExecutionDescription['raw'],
): Promise<FailingTask | null> {
  const attempt = pendingWorkflowTask?.attempt ?? 1;
  if (attempt === 1) return null;
  const { history } = await callTemporal(client, () =>
    client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace: client.options.namespace,
      execution: workflowExecutionInfo?.execution ?? null,
      maximumPageSize: 30,
    }),
  );
  const recorded: ProtoFailure[] = [];
  for (const event of history?.events ?? []) {
    if (event.workflowTaskCompletedEventAttributes) break;
    const { cause, failure } = event.workflowTaskFailedEventAttributes ?? {};
    if (failureCauses.has(cause)) recorded.push(failure ?? {});
  }
  const [failure] = recorded;
  return failure ? { failures: recorded.length + attempt - 2, failure } : null;
}

/**
 * Number of failed attempts after which a workflow is reset. The second one takes as long as the time
 * limit of workflow tasks.
 */
const failuresMax = 2;
const listedMax = 100;

/** Numbers of the workflows that were reset, that only an operator can help, and that were skipped. */
interface ResetReport {
  reset: number;
  failing: number;
  skipped: number;
}

interface ResetDeps {
  client: Client;
  logger: Logger;
  taskQueuePrefix: string;
  /** Version of the workflow code. Each version resets a workflow once. */
  workflowBuild: string;
}

/**
 * Resets each workflow whose task keeps failing to its first task. The steps that it repeats find
 * their results in the rows of the job, so no call is sent and no credit is moved twice.
 */
export async function resetFailingWorkflows(deps: ResetDeps): Promise<ResetReport> {
  const { client, logger, taskQueuePrefix } = deps;
  const report = { reset: 0, failing: 0 };
  const workflows: { id: string; runId: string }[] = [];
  const query = `ExecutionStatus = "Running" AND TaskQueue = "${studioTaskQueue(taskQueuePrefix)}" AND TemporalReportedProblems IN ("category=WorkflowTaskFailed")`;
  for await (const { workflowId, runId } of client.workflow.list({ query, pageSize: listedMax })) {
    workflows.push({ id: workflowId, runId });
    if (workflows.length === listedMax) break;
  }
  const { skipped } = await forEachIsolated(
    workflows,
    async (workflow) => {
      const { raw } = await callTemporal(client, () =>
        client.workflow.getHandle(workflow.id, workflow.runId).describe(),
      );
      const task = await findFailingTask(client, raw);
      if (!task || task.failures < failuresMax) return;
      const isReset = await resetOnce(deps, workflow);
      report[isReset ? 'reset' : 'failing'] += 1;
      const event = isReset ? 'sweeper.workflow_reset' : 'sweeper.workflow_failing';
      logger.error({ workflowId: workflow.id, failures: task.failures }, event);
    },
    { subject: 'workflow', logger },
  );
  return { ...report, skipped };
}

type HistoryEvent = NonNullable<
  Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']
>[number];

/** Returns the id of the event that ends the first workflow task; null if no task has ended. */
export function findFirstTaskEnd(
  events: readonly HistoryEvent[],
): NonNullable<HistoryEvent['eventId']> | null {
  const end = events.find(
    (event) =>
      event.workflowTaskCompletedEventAttributes ??
      event.workflowTaskFailedEventAttributes ??
      event.workflowTaskTimedOutEventAttributes,
  );
  return end?.eventId ?? null;
}

/**
 * Resets a workflow to its first task. Returns false if this build has reset it before: the reason of
 * a reset is an event of the new run.
 */
async function resetOnce(
  { client, workflowBuild }: ResetDeps,
  { id: workflowId, runId }: { id: string; runId: string },
): Promise<boolean> {
  const { namespace } = client.options;
  const execution = { workflowId, runId };
  const { history } = await callTemporal(client, () =>
    client.workflowService.getWorkflowExecutionHistory({
      namespace,
      execution,
      maximumPageSize: 100,
    }),
  );
  const events = history?.events ?? [];
  const reason = `the sweeper of build ${workflowBuild}: the workflow task keeps failing`;
  const wasReset = events.some(({ workflowTaskFailedEventAttributes: failed }) => {
    const message = failed?.failure?.message ?? '';
    return Number(failed?.cause) === resetCause && message.includes(reason);
  });
  const firstTask = findFirstTaskEnd(events);
  if (wasReset || firstTask === null) return false;
  await callTemporal(client, () =>
    client.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: execution,
      workflowTaskFinishEventId: firstTask,
      requestId: `${runId} ${workflowBuild}`,
      reason,
    }),
  );
  return true;
}
