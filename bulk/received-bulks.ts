/**
 * Stores bulk jobs while they are received, within the limits of their organization: open bulk jobs
 * and items, balance and storage quota (bulk-room.sql).
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { bulkEvents, type BulkEventName } from '../domain/bulk-contract.ts';
import { microFromCredits, reserveResult } from '../domain/credits.ts';
import { GatewayError } from '../domain/errors.ts';
import { asJson, type JsonObject } from '../domain/json.ts';
import type { RequestCaller } from '../identity/access.ts';
import { throwRejection } from '../ledger/ledger.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { BulkSubmission } from './bulk-intake.ts';
import type { PricedItem } from './bulk-items.ts';

interface StoreDeps {
  pool: DatabasePool;
  config: Config;
}

const overLimit = z.object({ bulks: z.number(), items: z.number() });
/** Schema of the answer of the functions that check the limits of open bulk jobs. */
export const overRow = z.object({ over: overLimit.nullable() });
const probeRow = z.object({ answer: reserveResult });
const createdRow = z.object({ createdAtMs: z.number() });
const fitsRow = z.object({ fits: z.boolean() });

/** Creates the error of an organization that has too many open bulk jobs or items. */
export function bulkLimitError(
  { BULK_OPEN_MAX: bulksMax, BULK_OPEN_ITEMS_MAX: itemsMax }: BulkLimits,
  { bulks, items }: z.infer<typeof overLimit>,
): GatewayError {
  const message = `The organization has ${bulks} open bulk jobs with ${items} open items; allowed are ${bulksMax} bulk jobs with ${itemsMax} items together.`;
  return new GatewayError('BULK_LIMIT_REACHED', message, { retryAfterSeconds: 60 });
}
type BulkLimits = Pick<Config, 'BULK_OPEN_MAX' | 'BULK_OPEN_ITEMS_MAX'>;

/** Returns the limits of open bulk jobs as the functions of bulk.sql take them. */
export const openLimits = ({ BULK_OPEN_MAX, BULK_OPEN_ITEMS_MAX }: BulkLimits) => ({
  bulksMax: BULK_OPEN_MAX,
  itemsMax: BULK_OPEN_ITEMS_MAX,
});

/**
 * Begins to receive a bulk job, before any of its items is stored. Returns the time of its creation, whose
 * prices apply, in Unix milliseconds.
 * @throws GatewayError BULK_LIMIT_REACHED, also if too many bulk jobs are being received
 */
export async function insertBulk(
  { pool, config }: StoreDeps,
  bulkId: string,
  submission: BulkSubmission,
): Promise<number> {
  const { caller, requestId, options, metadata, recipe, webhookUrl, batch } = submission;
  const events: readonly BulkEventName[] =
    webhookUrl === null ? [] : (options.webhookEvents ?? bulkEvents);
  const maxMicro = options.maxCredits === undefined ? null : microFromCredits(options.maxCredits);
  const bulk: JsonObject = {
    id: bulkId,
    organization_id: caller.organizationId,
    key_id: caller.keyId,
    request_id: requestId,
    concurrency: options.concurrency,
    max_credits: maxMicro,
    max_failed_percent: options.maxFailedPercent ?? null,
    metadata,
    recipe,
    webhook_url: webhookUrl,
    webhook_events: [...events],
    batch: asJson(batch),
  };
  const input = sql.jsonb({ bulk, ...openLimits(config) });
  const over = await pool.oneFirst(sql.type(overRow)`SELECT bulk_receive(${input}) AS over`);
  if (over) throw bulkLimitError(config, over);
  return pool.oneFirst(sql.type(createdRow)`
    SELECT floor(extract(epoch FROM created_at) * 1000)::bigint AS "createdAtMs" FROM bulk WHERE id = ${bulkId}`);
}

/**
 * Checks that the organization has ever enough credits for an item: its balance, including the
 * credits that other jobs have reserved and may return.
 * @throws GatewayError INSUFFICIENT_CREDITS
 */
export async function throwIfUnaffordable(
  connection: CommonQueryMethods,
  { organizationId, keyId }: RequestCaller,
  priceMicro: number,
): Promise<void> {
  const probed = await connection.maybeOneFirst(
    sql.type(probeRow)`SELECT ledger_probe(${organizationId}, ${keyId}, ${priceMicro}) AS answer`,
  );
  if (probed?.verdict !== 'insufficient_credits') return;
  const { available, reserved } = probed.balance;
  if (available + reserved < priceMicro) throwRejection(probed);
}

/**
 * Stores items, which count toward the storage quota of their organization.
 * @throws GatewayError STORAGE_QUOTA_EXCEEDED
 */
export async function insertItems(
  { pool, config }: StoreDeps,
  { bulkId, organizationId }: { bulkId: string; organizationId: string },
  items: readonly PricedItem[],
): Promise<void> {
  if (items.length === 0) return;
  const rows = items.map((item): JsonObject => ({ ...item, webhook: asJson(item.webhook) }));
  await pool.transaction(async (connection) => {
    await connection.query(command`
      INSERT INTO bulk_item (bulk_id, index, item_id, type, request, webhook, metadata, recipe, price, chat_min,
        state, error, ended_at, end_number)
      SELECT ${bulkId}, index, "itemId", type, request, nullif(webhook, 'null'), nullif(metadata, 'null'), recipe, "priceMicro", "chatMinMicro",
        CASE WHEN failure IS NULL THEN 'waiting' ELSE 'failed' END, failure,
        CASE WHEN failure IS NOT NULL THEN clock_timestamp() END, CASE WHEN failure IS NOT NULL THEN index + 1 END
      FROM jsonb_to_recordset(${sql.jsonb(rows)}) AS x(index integer, "itemId" text, type text,
        request jsonb, webhook jsonb, metadata jsonb, recipe text, "priceMicro" bigint, "chatMinMicro" bigint, failure jsonb)`);
    // The insertion has locked the row of the organization.
    const fits = await connection.oneFirst(sql.type(fitsRow)`
      SELECT upload_bytes <= ${config.UPLOAD_BYTES_MAX} AS fits FROM organization WHERE id = ${organizationId}`);
    if (!fits) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
  });
}

/** Deletes a bulk job that was not activated. If that fails, the sweeper deletes it later. */
export async function deleteBulk(pool: DatabasePool, bulkId: string): Promise<void> {
  await pool
    .query(command`DELETE FROM bulk WHERE id = ${bulkId} AND status = 'receiving'`)
    .catch(() => {});
}
