/**
 * A bulk job as an execution: how its row is shown to readers, and how its workflow starts and is
 * signaled. A change is first written to the row; if Temporal does not get the signal, the sweeper
 * sends it later.
 */
import type { Client } from '@temporalio/client';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { bulkChanged, bulkWorkflowType, type BulkInput } from '../domain/bulk-contract.ts';
import { searchAttributes, webhookTaskQueue } from '../domain/job-contract.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { FollowedKind } from '../executions/feed.ts';
import { startExecution, sweepExecutions } from '../executions/keeper.ts';
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
    isEnded: ({ completedAtMs }) => completedAtMs !== null,
    // Without the fields from which the remaining time is estimated, which change all the time.
    fingerprint: (bulk) => JSON.stringify({ ...bulk, recentEnds: null, recentMs: null }),
    show: view.resource,
  };
}

interface BulkWorkflowDeps {
  pool: DatabasePool;
  client: Client;
  config: Config;
  logger: Logger;
}

const unsignaledBulk = z.object({
  id: z.string(),
  organizationId: z.string(),
  keyId: z.string(),
  total: z.number(),
  unsignaledSinceMs: z.number().nullable(),
});
const selectUnsignaled = (where: FragmentSqlToken) => sql.type(unsignaledBulk)`
  SELECT id, organization_id AS "organizationId", key_id AS "keyId", total,
    unix_ms(unsignaled_since) AS "unsignaledSinceMs"
  FROM bulk WHERE ${where} ORDER BY unsignaled_since LIMIT 100`;

const dueBulk = z.object({ id: z.string(), missingForMs: z.number().nullable() });

/** Age of a bulk job whose items stopped arriving. */
const receivingMax = '1 hour';

/** Signals the workflow of a bulk job, which is started if it does not run. */
async function signal(
  deps: BulkWorkflowDeps,
  { id, organizationId, keyId, total, unsignaledSinceMs }: z.infer<typeof unsignaledBulk>,
): Promise<void> {
  const { pool, config } = deps;
  const input: BulkInput = {
    bulkId: id,
    organizationId,
    webhookTaskQueue: webhookTaskQueue(config.TASK_QUEUE_PREFIX),
    creditCheckMs: config.BULK_CREDIT_CHECK_MS,
  };
  await startExecution(deps, {
    id,
    type: bulkWorkflowType,
    input,
    signal: bulkChanged,
    typedSearchAttributes: [
      { key: searchAttributes.organizationId, value: organizationId },
      { key: searchAttributes.keyId, value: keyId },
      { key: searchAttributes.jobStatus, value: 'in_progress' },
    ],
    staticSummary: `bulk job of ${total} items`,
    priority: { fairnessKey: organizationId, priorityKey: 4 },
  });
  // A change after the read keeps its own time.
  await pool.query(command`UPDATE bulk SET unsignaled_since = NULL, missing_at = NULL
    WHERE id = ${id} AND unix_ms(unsignaled_since) IS NOT DISTINCT FROM ${unsignaledSinceMs}`);
}

/** Stops a bulk job whose workflow no longer exists. */
async function stopLost(deps: BulkWorkflowDeps, bulkId: string): Promise<void> {
  const { pool, logger } = deps;
  // Jobs that are still running are counted by the next passes.
  await pool.query(command`UPDATE bulk SET status = 'stopped', stop_reason = 'WORKFLOW_LOST', resume_at = NULL
    WHERE id = ${bulkId} AND status IN ('in_progress', 'paused')`);
  const lostStarts = await findLostStarts(deps, bulkId, []);
  await pool.query(
    command`SELECT FROM bulk_advance(${sql.jsonb({ bulkId, ...lostStarts, itemsMax: 0 })})`,
  );
  logger.warn({ bulkId }, 'sweeper.bulk_stopped');
}

/** Creates the functions that start, signal and sweep the workflows of bulk jobs. */
export function createBulkWorkflows(deps: BulkWorkflowDeps) {
  const { pool, config, logger } = deps;
  return {
    /** Signals a bulk job of which a change was written. An error is only logged. */
    async wake(bulkId: string): Promise<void> {
      const bulk = await pool.one(selectUnsignaled(sql.fragment`id = ${bulkId}`));
      await signal(deps, bulk).catch((error: unknown) =>
        logger.warn({ error, bulkId }, 'bulk.not_signaled'),
      );
    },
    /**
     * Signals the bulk jobs whose signal was lost, stops those whose workflow no longer exists,
     * cancels what has expired, deletes those that were never complete, and deletes the bodies of items that
     * failed long ago.
     */
    async sweep(): Promise<IsolationReport> {
      await pool.query(command`DELETE FROM bulk
        WHERE status = 'receiving' AND created_at < clock_timestamp() - ${receivingMax}::interval`);
      await pool.query(command`SELECT bulk_forget_bodies(
        clock_timestamp() - ${config.UPLOAD_KEPT_MS} * interval '1 millisecond')`);
      await pool.query(command`SELECT bulk_command(jsonb_build_object('bulkId', id, 'organizationId', organization_id,
        'command', 'cancel', 'reason', 'EXPIRED')) FROM bulk
        WHERE expires_at < clock_timestamp() AND status IN ('in_progress', 'paused') LIMIT 100`);
      const isOpen = sql.fragment`completed_at IS NULL AND status <> 'receiving'`;
      const unsignaled = await pool.any(
        selectUnsignaled(
          sql.fragment`${isOpen} AND unsignaled_since < clock_timestamp() - interval '5 seconds'`,
        ),
      );
      const isolation = { subject: 'bulk', logger };
      const signaled = await forEachIsolated(unsignaled, (bulk) => signal(deps, bulk), isolation);
      const checked = await sweepExecutions(deps, {
        subject: 'bulk',
        listDue: () =>
          pool.any(sql.type(dueBulk)`
          SELECT id, (extract(epoch FROM clock_timestamp() - missing_at) * 1000)::float8 AS "missingForMs"
          FROM bulk WHERE ${isOpen} AND unsignaled_since IS NULL AND (missing_at IS NOT NULL
            OR checked_at < clock_timestamp() - ${config.RESERVATION_TTL_MS} * interval '1 millisecond')
          ORDER BY checked_at LIMIT 100`),
        onRunning: ({ id }) =>
          pool.query(command`UPDATE bulk
          SET checked_at = clock_timestamp(), missing_at = NULL WHERE id = ${id}`),
        onMissing: ({ id }) =>
          pool.query(command`UPDATE bulk
          SET missing_at = coalesce(missing_at, clock_timestamp()) WHERE id = ${id}`),
        onEnded: ({ id }) => stopLost(deps, id),
      });
      return { done: signaled.done + checked.done, skipped: signaled.skipped + checked.skipped };
    },
  };
}
export type BulkWorkflows = ReturnType<typeof createBulkWorkflows>;
