/**
 * Accepts bulk jobs: checks the limits, checks and prices all items in portions, stores them,
 * and activates the bulk job when all have arrived. Until then, no other request sees it, and an error deletes it.
 */
import { createHash } from 'node:crypto';
import { sql } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../domain/credits.ts';
import { fieldError, GatewayError, type ErrorDetail } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { bulkEvents } from '../domain/bulk-contract.ts';
import { stringifySorted } from '../domain/json.ts';
import { metadataFields } from '../domain/metadata.ts';
import type { RequestCaller } from '../identity/access.ts';
import {
  claimCondition,
  claimKey,
  findEarlier,
  isKeyUsed,
  type KeyedRequest,
} from '../ledger/claims.ts';
import type { Prices } from '../ledger/price-book.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { paceWork } from '../platform/work-turns.ts';
import { webhookUrlLengthMax } from '../studio/requests/webhook-fields.ts';
import { useOfBatch, type BatchFields } from './bulk-reads.ts';
import {
  countSteps,
  defaultsSchema,
  priceItem,
  toFailedItem,
  type ItemOwner,
  type ItemServices,
  type PricedItem,
} from './bulk-items.ts';
import {
  bulkLimitError,
  deleteBulk,
  insertBulk,
  insertItems,
  openLimits,
  overRow,
  throwIfUnaffordable,
} from './received-bulks.ts';

/** Maximum number of items of a bulk job. */
export const bulkItemsMax = 10_000;
const concurrencyMax = 64;
/** Maximum number of invalid items that an error names. */
const invalidShownMax = 50;
/** Maximum number of steps of all items; an item that is no pipeline is one step. */
const bulkStepsMax = 40_000;
/** Number of steps that are checked at the same time. */
const portionSteps = 20;
/** Number of items that are stored with one statement. */
const storedTogether = 200;

/** Options of a bulk job, which are fields of its request beside the items. */
export const bulkOptions = {
  defaults: defaultsSchema.optional().meta({
    description:
      'Fields that all items share. A field of an item replaces the one of the same name.',
  }),
  maxCredits: z.number().positive().max(1e9).optional().meta({
    description:
      'Maximum number of credits that the bulk job charges. An item starts only if charged and reserved credits and its price are within it.',
  }),
  maxFailedPercent: z.number().min(0).max(100).optional().meta({
    description:
      'Stops the bulk job when more than this percentage of at least 20 ended items failed.',
  }),
  concurrency: z.int().min(1).max(concurrencyMax).default(8).meta({
    description: 'Maximum number of jobs that run at the same time.',
  }),
  skipInvalid: z.boolean().default(false).meta({
    description: 'Accept the bulk job without its invalid items.',
  }),
  // `parseWebhookUrl` checks the URL.
  webhookUrl: z.string().max(webhookUrlLengthMax).optional().meta({
    format: 'uri',
    description:
      'HTTPS URL that receives the events of the bulk job. Without it, your webhook endpoints receive them (docs/bulk.md).',
  }),
  webhookEvents: z
    .array(z.enum(bulkEvents))
    .min(1)
    .max(bulkEvents.length)
    .refine((events) => new Set(events).size === events.length, 'must not repeat an event')
    .optional()
    .meta({ description: 'Events that are sent to `webhookUrl`; by default all.' }),
  ...metadataFields,
};

/** Options of a bulk job after parsing. */
export type BulkOptions = z.infer<z.ZodObject<typeof bulkOptions>>;

/** Item as it arrived, or the error of a line that is no item. */
export type ReceivedItem = { index: number } & (
  | {
      value: unknown;
      recipe: string | null;
      /** Id of an item that is a line of a batch. */
      customId?: string;
    }
  | { error: GatewayError }
);

/** Request for a bulk job or for its estimate. */
export interface BulkRequest {
  caller: RequestCaller;
  options: BulkOptions;
  metadata: Record<string, string> | null;
  /** Recipe of the request, as `name@version`. */
  recipe: string | null;
  items: AsyncIterable<ReceivedItem> | Iterable<ReceivedItem>;
  countCopied: (bytes: number) => void;
  /** Aborts when the caller has disconnected. */
  signal: AbortSignal;
}

/** Request for a bulk job. */
export interface BulkSubmission extends BulkRequest {
  requestId: string;
  idempotencyKey: string | null;
  /** Checked URL of the webhook. */
  webhookUrl: string | null;
  /** Null for a bulk job that is no batch. Invalid items of a batch are stored as failed. */
  batch: BatchFields | null;
}

/** Result of the check of all items. */
interface CheckedItems {
  /** Number of valid items. */
  count: number;
  priceMicro: number;
  /** Free credits that the first valid item needs. */
  firstNeedMicro: number;
  /** Number of invalid items that are stored as failed. */
  failed: number;
  /** Number of the other invalid items, and the errors of the first ones. */
  invalid: number;
  invalidItems: ErrorDetail[];
}

type StorePortion = (items: readonly PricedItem[]) => Promise<void>;

/**
 * Checks and prices all items, and passes the valid ones to `store` in their order.
 * @throws GatewayError INVALID_REQUEST with the errors of the first invalid items; FORBIDDEN if the
 * key may not use the endpoint or the model of an item
 */
export async function checkItems(
  request: BulkRequest & { prices: Prices; batch?: BatchFields | null },
  services: ItemServices,
  store: StorePortion,
): Promise<CheckedItems> {
  const owner: ItemOwner = {
    caller: request.caller,
    defaults: request.options.defaults ?? {},
    metadata: request.metadata,
    countCopied: request.countCopied,
    prices: request.prices,
  };
  const checked: CheckedItems = { ...noItems, invalidItems: [] };
  const ids = new Map<string, number>();
  const pace = paceWork(request.caller.organizationId);

  function addInvalid(error: GatewayError): void {
    checked.invalid += 1;
    const left = invalidShownMax - checked.invalidItems.length;
    checked.invalidItems.push(...(error.details ?? []).slice(0, Math.min(1, left)));
  }

  async function check(items: readonly ReceivedItem[]): Promise<void> {
    if (request.signal.aborted)
      throw new GatewayError('CANCELED', 'The client closed the connection.');
    const results = await priceInTurns(items, owner, { services, pace });
    const valid: PricedItem[] = [];
    for (const [position, result] of results.entries()) {
      if (result.status === 'rejected') {
        const error = asItemError(result.reason);
        const received = items[position];
        if (request.batch && received) {
          const itemId = 'customId' in received ? received.customId : undefined;
          const type = useOfBatch(request.batch);
          valid.push(toFailedItem({ index: received.index, itemId, type }, error));
          checked.failed += 1;
        } else addInvalid(error);
        continue;
      }
      const item = result.value;
      const earlier = item.itemId === null ? undefined : ids.get(item.itemId);
      if (earlier !== undefined) {
        const message = `is also the id of item ${earlier}; ids must be unique`;
        addInvalid(fieldError('INVALID_REQUEST', `items.${item.index}.id`, message));
        continue;
      }
      if (item.itemId !== null) ids.set(item.itemId, item.index);
      if (checked.count === 0) {
        throwIfOverBudget(request.options, item);
        checked.firstNeedMicro = item.chatMinMicro ?? item.priceMicro;
      }
      checked.count += 1;
      checked.priceMicro += item.priceMicro;
      valid.push(item);
    }
    const isRejected = checked.invalid > 0 && !request.options.skipInvalid;
    if (!isRejected) await store(valid);
  }

  await forEachPortion(request, check);
  const isEmpty = checked.count + checked.invalid + checked.failed === 0;
  if (isEmpty)
    throw fieldError('INVALID_REQUEST', 'items', 'must contain at least one item; received none');
  if (checked.invalid > 0 && (!request.options.skipInvalid || checked.count === 0)) {
    const [first] = checked.invalidItems;
    const message = `${checked.invalid} of ${checked.count + checked.invalid} items are invalid; the first error: ${first?.path}: ${first?.message}`;
    throw new GatewayError('INVALID_REQUEST', message, { details: checked.invalidItems });
  }
  return checked;
}

const noItems: CheckedItems = {
  count: 0,
  priceMicro: 0,
  firstNeedMicro: 0,
  failed: 0,
  invalid: 0,
  invalidItems: [],
};

/** Prices items at the same time; each starts when `pace` resolves. */
async function priceInTurns(
  items: readonly ReceivedItem[],
  owner: ItemOwner,
  { services, pace }: { services: ItemServices; pace: () => Promise<void> },
): Promise<PromiseSettledResult<PricedItem>[]> {
  const pending: Promise<PricedItem>[] = [];
  for (const item of items) {
    await pace();
    const pricing = 'error' in item ? Promise.reject(item.error) : priceItem(item, owner, services);
    // Without a handler, an error during the next wait would end the process.
    pricing.catch(() => {});
    pending.push(pricing);
  }
  return Promise.allSettled(pending);
}

/**
 * Calls a function with portions of the items.
 * @throws GatewayError INVALID_REQUEST if there are too many items or steps
 */
async function forEachPortion(
  { items, options: { defaults } }: Pick<BulkRequest, 'items' | 'options'>,
  run: (portion: readonly ReceivedItem[]) => Promise<void>,
): Promise<void> {
  let portion: ReceivedItem[] = [];
  let [count, steps, stepsOfPortion] = [0, 0, 0];
  for await (const item of items) {
    count += 1;
    if (count > bulkItemsMax) {
      throw fieldError('INVALID_REQUEST', 'items', `must contain at most ${bulkItemsMax} items`);
    }
    const stepsOfItem = 'value' in item ? countSteps(item.value, defaults) : 1;
    steps += stepsOfItem;
    if (steps > bulkStepsMax) {
      const message = `must contain at most ${bulkStepsMax} steps in all pipelines together; another item counts as one step`;
      throw fieldError('INVALID_REQUEST', 'items', message);
    }
    stepsOfPortion += stepsOfItem;
    portion.push(item);
    if (stepsOfPortion < portionSteps) continue;
    await run(portion);
    [portion, stepsOfPortion] = [[], 0];
  }
  if (portion.length > 0) await run(portion);
}

/**
 * Returns the error of an invalid item.
 * @throws any other error, also that the key may not use an endpoint or a model
 */
function asItemError(error: unknown): GatewayError {
  const isItemError = error instanceof GatewayError && error.status < 500 && error.status !== 403;
  if (!isItemError || error.status === 429) throw error;
  return error;
}

/** @throws GatewayError INVALID_REQUEST if the first item exceeds `maxCredits` */
function throwIfOverBudget({ maxCredits }: BulkOptions, { index, priceMicro }: PricedItem): void {
  if (maxCredits === undefined || priceMicro <= microFromCredits(maxCredits)) return;
  const message = `must be at least ${creditsFromMicro(priceMicro)}, the price of item ${index}; received ${maxCredits}`;
  throw fieldError('INVALID_REQUEST', 'maxCredits', message);
}

interface IntakeDeps extends ItemServices {
  pool: DatabasePool;
  config: Config;
}

/** Id of a bulk job, and whether an earlier request with the same Idempotency-Key started it. */
export interface AcceptedBulk {
  bulkId: string;
  replayed: boolean;
}

/**
 * Stores a bulk job and activates it, unless an earlier request with the same Idempotency-Key did.
 * @throws GatewayError if the request is rejected; nothing is stored then
 */
export async function acceptBulk(
  submission: BulkSubmission,
  deps: IntakeDeps,
): Promise<AcceptedBulk> {
  const { pool } = deps;
  const bulkId = newId('bulk');
  const received = hashItems(submission.items);
  const request = { ...submission, items: received.items };
  if (await isKeyUsed(pool, submission.caller.organizationId, submission.idempotencyKey)) {
    // A repeated request gets the first answer, also if its items would be invalid by now.
    const pace = paceWork(submission.caller.organizationId);
    if (!submission.batch) await forEachPortion(request, pace);
    const keyed = toKeyed(request, { bulkId, hash: received.digest() });
    const earlierId = keyed && (await findEarlier(pool, keyed));
    // The claim has just been deleted because of its age.
    if (earlierId === null) throw new GatewayError('SERVICE_UNAVAILABLE');
    return { bulkId: earlierId, replayed: true };
  }
  const pricedAtMs = await insertBulk(deps, bulkId, submission);
  try {
    const prices = await deps.priceBook.at(submission.caller.organizationId, pricedAtMs);
    const buffer: PricedItem[] = [];
    const { caller } = submission;
    const owned = { bulkId, organizationId: caller.organizationId };
    const flush = async (): Promise<void> => insertItems(deps, owned, buffer.splice(0));
    let isFirst = true;
    const store: StorePortion = async (items) => {
      const first = items.find(({ failure }) => !failure);
      if (isFirst && first)
        await throwIfUnaffordable(pool, caller, first.chatMinMicro ?? first.priceMicro);
      isFirst &&= !first;
      buffer.push(...items);
      if (buffer.length >= storedTogether) await flush();
    };
    const checked = submission.batch?.errors
      ? noItems
      : await checkItems({ ...request, prices }, deps, store);
    await flush();
    if (submission.signal.aborted)
      throw new GatewayError('CANCELED', 'The client closed the connection.');
    const earlierId = await activate(request, { bulkId, hash: received.digest(), checked }, deps);
    if (earlierId !== null) await deleteBulk(pool, bulkId);
    return { bulkId: earlierId ?? bulkId, replayed: earlierId !== null };
  } catch (error) {
    await deleteBulk(pool, bulkId);
    throw error;
  }
}

/** Passes items on, and computes the hash of those that were read. */
function hashItems(items: BulkRequest['items']) {
  const hash = createHash('sha256');
  async function* read(): AsyncGenerator<ReceivedItem> {
    for await (const item of items) {
      const sent = 'value' in item ? item.value : item.error.details;
      hash.update(`${stringifySorted(sent)}\n`);
      yield item;
    }
  }
  return { items: read(), digest: () => hash.digest('hex') };
}

type ReceivedBulk = { bulkId: string; hash: string };

/** Returns a request as its Idempotency-Key identifies it; null if it has none. */
function toKeyed(
  { caller: { organizationId }, idempotencyKey, options, batch }: BulkSubmission,
  { bulkId, hash }: ReceivedBulk,
): KeyedRequest | null {
  if (idempotencyKey === null) return null;
  // The file of a batch may have been deleted before its request is repeated.
  const { inputFileId, endpoint } = batch ?? {};
  const body = stringifySorted({ options, ...(batch ? { inputFileId, endpoint } : { hash }) });
  const path = batch ? '/batches' : '/studio/bulk';
  return { organizationId, idempotencyKey, path, body, subjectId: bulkId };
}

/**
 * Claims the Idempotency-Key and activates the bulk job, in one transaction. Returns the id of the
 * bulk job of an earlier request with the same key; null if there is none.
 */
async function activate(
  request: BulkSubmission,
  received: ReceivedBulk & { checked: CheckedItems },
  { pool, config }: IntakeDeps,
): Promise<string | null> {
  const { bulkId, checked } = received;
  return pool.transaction(async (connection) => {
    const keyed = toKeyed(request, received);
    const claimed = keyed && (await claimKey(connection, keyed));
    if (claimed?.state === 'done') return claimed.subjectId;
    const total = checked.count + checked.failed;
    await connection.query(command`UPDATE bulk SET total = ${total}, waiting = ${checked.count},
      failed = ${checked.failed}, last_end = ${checked.failed === 0 ? 0 : total},
      invalid = ${checked.invalid}, invalid_items = ${sql.jsonb(checked.invalidItems.map((item) => ({ ...item })))},
      estimated = ${checked.priceMicro}, waiting_price = ${checked.priceMicro}
      WHERE id = ${bulkId}`);
    if (request.batch?.errors) {
      await connection.query(command`UPDATE bulk SET status = 'canceled', stop_reason = 'INVALID_INPUT',
        completed_at = clock_timestamp() WHERE id = ${bulkId}`);
    } else {
      const limits = sql.jsonb({ bulkId, ...openLimits(config) });
      const over = await connection.oneFirst(
        sql.type(overRow)`SELECT bulk_activate(${limits}) AS over`,
      );
      if (over) throw bulkLimitError(config, over);
      await throwIfUnaffordable(connection, request.caller, checked.firstNeedMicro);
    }
    if (claimed) {
      await connection.query(command`UPDATE idempotency_claim SET state = 'done', subject_id = ${bulkId}
        WHERE ${claimCondition(claimed.claim)}`);
    }
    return null;
  });
}
