/** Explains bulk jobs to operators: why one is open, since when, and what continues or ends it. */
import type { Client } from '@temporalio/client';
import { formatAgo } from '../domain/durations.ts';
import type { DatabasePool } from '../platform/database.ts';
import { createBulkOverview, type BulkRecord } from './bulk-reads.ts';
import {
  describeFailures,
  readWorkflow,
  type WorkflowState,
} from '../executions/workflow-state.ts';

/** Bulk job with the state of its workflow and an explanation. */
export interface ExplainedBulk extends BulkRecord {
  /** Null if Temporal cannot be reached. */
  workflow: WorkflowState | null;
  why: string;
}

/** Creates the functions that explain bulk jobs. */
export function createOpenBulks({ pool, client }: { pool: DatabasePool; client: Client }) {
  const overview = createBulkOverview(pool);

  async function explain(bulk: BulkRecord): Promise<ExplainedBulk> {
    const workflow = await readWorkflow(client, bulk.id).catch(() => null);
    return { ...bulk, workflow, why: describeBulk(bulk, workflow) };
  }
  return {
    /** Lists the open bulk jobs, oldest first. */
    async list(filter: { organizationId: string | undefined; limit: number }) {
      const bulks = await overview.listOpen(filter.organizationId ?? null, filter.limit);
      return Promise.all(bulks.map(explain));
    },
    /** Explains a bulk job; null if it does not exist. */
    async find(bulkId: string): Promise<ExplainedBulk | null> {
      const bulk = await overview.find(bulkId);
      return bulk && explain(bulk);
    },
  };
}

/** Events that continue a paused bulk job, by the reason of the pause. */
const continuations: Record<string, string> = {
  PAUSED: 'It continues when its caller resumes it.',
  INSUFFICIENT_CREDITS: 'It continues when its organization has credits again.',
  JOBS_MAX_REACHED:
    'It continues when other jobs of its organization or key end, or when their limit is raised.',
  WINDOW_EXHAUSTED: 'It continues when the six-hour window ends.',
  KEY_LIMIT_EXCEEDED:
    'It continues when the period of the key’s limit ends, or when the limit is raised.',
};

/** Explains a bulk job in a few sentences. */
function describeBulk(bulk: BulkRecord, workflow: WorkflowState | null): string {
  const { status, stopReason, total, completed, failed, canceled, waiting, awaiting } = bulk;
  const running = bulk.running - awaiting;
  const counts = `${completed} completed, ${failed} failed, ${canceled} canceled, ${running} running, ${awaiting} awaiting approvals and ${waiting} waiting of ${total} items`;
  const reason = stopReason === null ? '' : ` (${stopReason})`;
  if (bulk.completedAtMs !== null)
    return `Ended as ${status}${reason} ${formatAgo(bulk.completedAtMs)}: ${counts}.`;
  const sentences = [`${describeStatus(bulk)}: ${counts}.`];
  if (workflow === null)
    sentences.push('Temporal is unreachable, so the state of its workflow is unknown.');
  else if (workflow.state !== 'running') {
    const end = workflow.status === null ? 'is missing' : `ended (${workflow.status})`;
    sentences.push(
      `It hangs: its workflow ${end}. The sweeper stops it as WORKFLOW_LOST; its running jobs go on, and its caller can resume it.`,
    );
  } else if (bulk.unsignaledSinceMs !== null) {
    sentences.push(
      `A change ${formatAgo(bulk.unsignaledSinceMs)} was not signaled to its workflow; the sweeper repeats the signal.`,
    );
  }
  for (const failure of workflow ? describeFailures(workflow) : [])
    sentences.push(`It hangs: ${failure}.`);
  if (status === 'paused') {
    sentences.push(continuations[stopReason ?? ''] ?? 'It continues when the reason is gone.');
    if (bulk.resumeAtMs !== null)
      sentences.push(`Expected at ${new Date(bulk.resumeAtMs).toISOString()}.`);
  }
  return sentences.join(' ');
}

function describeStatus({ status, stopReason, createdAtMs, pausedAtMs }: BulkRecord): string {
  if (status === 'in_progress') return `In progress, accepted ${formatAgo(createdAtMs)}`;
  if (status === 'paused') return `Paused ${formatAgo(pausedAtMs ?? createdAtMs)} (${stopReason})`;
  const reason = stopReason === null ? '' : ` (${stopReason})`;
  return `${status === 'stopped' ? 'Stopped' : 'Canceled'}${reason}, and waits for its running jobs`;
}
