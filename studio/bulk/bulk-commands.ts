/** Applies the commands of callers to bulk jobs, and wakes their workflows. */
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Config } from '../../platform/config.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { bulkLimitError, openLimits } from './bulk-intake.ts';
import type { BulkRecord } from './bulk-reads.ts';
import type { BulkWorkflows } from './bulk-workflow.ts';

/** Command with its fields (bulk.sql). */
export type BulkCommand =
  | { command: 'cancel'; all: boolean }
  | { command: 'pause' }
  | { command: 'resume'; maxCredits?: number; maxFailedPercent?: number; concurrency?: number }
  | { command: 'retry' };

const resultRow = z.object({
  result: z.union([
    z.enum(['changed', 'unchanged', 'not_found', 'done', 'canceled', 'nothing']),
    z.object({ bulks: z.number(), items: z.number() }),
  ]),
});

interface CommandDeps {
  pool: DatabasePool;
  config: Config;
  bulkWorkflows: Pick<BulkWorkflows, 'wake'>;
}

const refusals = {
  done: 'The bulk job has ended',
  canceled: 'The bulk job was canceled',
  nothing:
    'No item of the bulk job has failed, or the bodies of the failed items have been deleted',
};

/**
 * Applies a command to a bulk job. Also wakes a workflow for which nothing has changed, because the
 * signal of an earlier command may have been lost.
 * @throws GatewayError BULK_NOT_FOUND, BULK_ALREADY_DONE, BULK_LIMIT_REACHED
 */
export async function commandBulk(
  { id: bulkId, organization_id: organizationId, status }: BulkRecord,
  command: BulkCommand,
  { pool, config, bulkWorkflows }: CommandDeps,
): Promise<void> {
  const input: JsonObject = { bulkId, organizationId, ...openLimits(config), ...command };
  const result = await pool.oneFirst(
    sql.type(resultRow)`SELECT bulk_command(${sql.jsonb(input)}) AS result`,
  );
  if (typeof result === 'object') throw bulkLimitError(config, result);
  if (result === 'not_found') throw new GatewayError('BULK_NOT_FOUND');
  if (result === 'done' || result === 'canceled' || result === 'nothing') {
    const message = `${refusals[result]}, so ${command.command} has no effect (status ${status}).`;
    throw new GatewayError('BULK_ALREADY_DONE', message);
  }
  await bulkWorkflows.wake(bulkId);
}
