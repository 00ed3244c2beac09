/**
 * A bulk job as an execution: how its row is shown to readers, and how its workflow starts and is
 * signaled. A change is first written to the row; if Temporal does not get the signal, the sweeper
 * sends it later.
 */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { bulkChanged, bulkWorkflowType, type BulkInput } from '../../domain/bulk-contract.ts';
import {
  searchAttributes,
  studioTaskQueue,
  webhookTaskQueue,
  workflowTaskTimeout,
} from '../../domain/job-contract.ts';
import { forEachIsolated, type IsolationReport } from '../../platform/background.ts';
import type { Config } from '../../platform/config.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { callTemporal } from '../../platform/temporal.ts';
import type { FollowedKind } from '../executions/feed.ts';
import type { BulkReads, BulkRecord } from './bulk-reads.ts';
import type { BulkView } from './bulk-view.ts';
import { findLostStarts } from './lost-starts.ts';

/** Creates the kind of executions that bulk jobs are. */
export function createBulkKind(
  { read, readMany }: BulkReads,
  view: BulkView,
): FollowedKind<BulkRecord> {
  return {
    event: 'bulk',
    read,
    readMany,
    isEnded: ({ completed_at: endedAtMs }) => endedAtMs !== null,
    // Without the columns from which the remaining time is estimated, which change all the time.
    fingerprint: (bulk) => JSON.stringify({ ...bulk, recent_ends: null, recent_ms: null }),
    show: view.resource,
  };
}

interface BulkWorkflowDeps {
  pool: DatabasePool;
  client: Client;
  config: Config;
  logger: Logger;
}

const bulkIds = z.object({
  id: z.string(),
  organizationId: z.string(),
  keyId: z.string(),
  total: z.number(),
  unsignaledSinceMs: z.number().nullable(),
  missing: z.boolean(),
});
type BulkIds = z.infer<typeof bulkIds>;

/** Age of a bulk job whose items stopped arriving. */
const receivingMax = '1 hour';
/** Time for which a workflow must be missing before its bulk job is stopped. */
const missingGrace = '30 seconds';

const columns = sql.fragment`id, organization_id AS "organizationId", key_id AS "keyId", total,
  unix_ms(unsignaled_since) AS "unsignaledSinceMs",
  coalesce(missing_at < clock_timestamp() - ${missingGrace}::interval, false) AS missing`;

/** Signals the workflow of a bulk job, which is started if it does not run. */
async function signal(
  { pool, client, config }: BulkWorkflowDeps,
  { id, organizationId, keyId, total, unsignaledSinceMs }: BulkIds,
): Promise<void> {
  const input: BulkInput = {
    bulkId: id,
    organizationId,
    webhookTaskQueue: webhookTaskQueue(config.TASK_QUEUE_PREFIX),
    creditCheckMs: config.BULK_CREDIT_CHECK_MS,
  };
  await callTemporal(client, () =>
    client.workflow.signalWithStart(bulkWorkflowType, {
      workflowId: id,
      taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
      args: [input],
      workflowTaskTimeout,
      signal: bulkChanged,
      typedSearchAttributes: [
        { key: searchAttributes.organizationId, value: organizationId },
        { key: searchAttributes.keyId, value: keyId },
        { key: searchAttributes.jobStatus, value: 'in_progress' },
      ],
      staticSummary: `bulk job of ${total} items`,
      priority: { fairnessKey: organizationId, priorityKey: 4 },
    }),
  );
  // A change after the read keeps its own time.
  await pool.query(command`UPDATE bulk SET unsignaled_since = NULL, missing_at = NULL
    WHERE id = ${id} AND unix_ms(unsignaled_since) IS NOT DISTINCT FROM ${unsignaledSinceMs}`);
}

async function isRunning(client: Client, id: string): Promise<boolean> {
  try {
    const { status } = await callTemporal(client, () => client.workflow.getHandle(id).describe());
    return status.name === 'RUNNING' || status.name === 'PAUSED';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

async function sweepOne(deps: BulkWorkflowDeps, bulk: BulkIds): Promise<void> {
  const { pool, client, logger } = deps;
  if (bulk.unsignaledSinceMs !== null) return signal(deps, bulk);
  if (await isRunning(client, bulk.id)) {
    await pool.query(
      command`UPDATE bulk SET checked_at = clock_timestamp(), missing_at = NULL WHERE id = ${bulk.id}`,
    );
    return undefined;
  }
  if (!bulk.missing) {
    await pool.query(
      command`UPDATE bulk SET missing_at = coalesce(missing_at, clock_timestamp()) WHERE id = ${bulk.id}`,
    );
    return undefined;
  }
  // Jobs that are still running are counted by the next passes.
  await pool.query(command`UPDATE bulk SET status = 'stopped', stop_reason = 'WORKFLOW_LOST', resume_at = NULL
    WHERE id = ${bulk.id} AND status IN ('in_progress', 'paused')`);
  const step = sql.jsonb({
    bulkId: bulk.id,
    ...(await findLostStarts(deps, bulk.id, [])),
    itemsMax: 0,
  });
  await pool.query(command`SELECT FROM bulk_advance(${step})`);
  logger.warn({ bulkId: bulk.id }, 'sweeper.bulk_stopped');
  return undefined;
}

/** Creates the functions that start, signal and sweep the workflows of bulk jobs. */
export function createBulkWorkflows(deps: BulkWorkflowDeps) {
  const { pool, config, logger } = deps;
  return {
    /** Signals a bulk job of which a change was written. An error is only logged. */
    async wake(bulkId: string): Promise<void> {
      const bulk = await pool.one(
        sql.type(bulkIds)`SELECT ${columns} FROM bulk WHERE id = ${bulkId}`,
      );
      await signal(deps, bulk).catch((error: unknown) =>
        logger.warn({ error, bulkId }, 'bulk.not_signaled'),
      );
    },
    /**
     * Signals the bulk jobs whose signal was lost, stops those whose workflow no longer exists,
     * deletes those that were never complete, and deletes the bodies of items that failed long ago.
     */
    async sweep(): Promise<IsolationReport> {
      await pool.query(command`DELETE FROM bulk
        WHERE status = 'receiving' AND created_at < clock_timestamp() - ${receivingMax}::interval`);
      await pool.query(command`SELECT bulk_forget_bodies(
        clock_timestamp() - ${config.UPLOAD_KEPT_MS} * interval '1 millisecond')`);
      const due = await pool.any(sql.type(bulkIds)`SELECT ${columns} FROM bulk
        WHERE completed_at IS NULL AND status <> 'receiving'
          AND (unsignaled_since < clock_timestamp() - interval '5 seconds' OR missing_at IS NOT NULL
            OR checked_at < clock_timestamp() - ${config.RESERVATION_TTL_MS} * interval '1 millisecond')
        ORDER BY checked_at LIMIT 100`);
      return forEachIsolated(due, (bulk) => sweepOne(deps, bulk), { subject: 'bulk', logger });
    },
  };
}
export type BulkWorkflows = ReturnType<typeof createBulkWorkflows>;
