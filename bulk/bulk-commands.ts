/** Applies the commands of callers to bulk jobs, and wakes their workflows. */
import { setImmediate as serveOtherRequests } from 'node:timers/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import type { JsonObject } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { DatabasePool } from '../platform/database.ts';
import { chatUses } from '../chat/item-chats.ts';
import { authorize, authorizeModel, type RequestCaller } from '../identity/access.ts';
import { getRequiredScope } from '../studio/capabilities/capability.ts';
import { authorizeRequest } from '../studio/requests/request-draft.ts';
import { bulkLimitError, openLimits } from './received-bulks.ts';
import { buildRequest, storedItem } from './bulk-items.ts';
import type { BulkRecord } from './bulk-reads.ts';
import type { BulkWorkflows } from './bulk-execution.ts';

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

const isLimitedRow = z.object({ limited: z.boolean() });
const sampleRow = storedItem.omit({ index: true });
const sampledModels = z.object({ model: z.string(), fallbacks: z.array(z.string()) });

/**
 * Checks that a key may start the items of a bulk job: it needs their scopes and models, and if it has
 * a limit, the bulk job must count toward it.
 * @throws GatewayError FORBIDDEN
 */
async function authorizeStart(
  { id, keyId }: BulkRecord,
  caller: RequestCaller,
  pool: DatabasePool,
): Promise<void> {
  authorize(caller, 'bulk:*');
  const isLimited = await pool.oneFirst(sql.type(isLimitedRow)`
    SELECT key_is_limited(acting.id) AND coalesce(acting.budget_of, acting.id)
      <> (SELECT coalesce(k.budget_of, k.id) FROM api_key k WHERE k.id = ${keyId}) AS limited
    FROM api_key acting WHERE acting.id = ${caller.keyId}`);
  if (isLimited) {
    const message = 'This key has a limit, so it may not spend the credits of another key.';
    throw new GatewayError('FORBIDDEN', message);
  }
  // One item for each choice of endpoints and models.
  const samples = await pool.any(sql.type(sampleRow)`
    SELECT DISTINCT ON (i.type, jsonb_path_query_array(i.request, '$.**.use'),
        jsonb_path_query_array(i.request, '$.**.model'), i.request->'fallbacks', jsonb_path_query_array(i.request, '$.**.service'),
        jsonb_path_query_array(i.request, '$.**.operation'))
      i.type, i.request, i.webhook, i.metadata, i.recipe
    FROM bulk_item i WHERE i.bulk_id = ${id} AND i.state IN ('waiting', 'failed') AND i.request <> '{}'`);
  for (const sample of samples) {
    if (chatUses.has(sample.type)) {
      authorize(caller, 'chat');
      const { model, fallbacks } = sampledModels.parse(sample.request);
      for (const name of [model, ...fallbacks]) authorizeModel(caller, name);
      continue;
    }
    const request = buildRequest(sample, { caller, countCopied: () => {} });
    authorize(caller, getRequiredScope(request.capability));
    try {
      authorizeRequest(request);
    } catch (error) {
      // Any other error fails the item when it starts.
      const isRefusal = !(error instanceof GatewayError) || error.code === 'FORBIDDEN';
      if (isRefusal) throw error;
    }
    await serveOtherRequests();
  }
}

/**
 * Applies a command to a bulk job. Also wakes a workflow for which nothing has changed, because the
 * signal of an earlier command may have been lost.
 * @throws GatewayError BULK_NOT_FOUND, BULK_ALREADY_DONE, BULK_LIMIT_REACHED, FORBIDDEN
 */
export async function commandBulk(
  { bulk, caller }: { bulk: BulkRecord; caller: RequestCaller },
  command: BulkCommand,
  { pool, config, bulkWorkflows }: CommandDeps,
): Promise<void> {
  const { id: bulkId, organizationId, status } = bulk;
  const startsItems = command.command === 'resume' || command.command === 'retry';
  if (startsItems) await authorizeStart(bulk, caller, pool);
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
