/** Reads bulk jobs, their items and results for API responses. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { bulkEvents } from '../domain/bulk-contract.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { JobReads, JobRecord } from '../studio/jobs/job-reads.ts';

/** Schema of what a bulk job that is a batch of OpenAI's API has beside others. */
export const batchFields = z.object({
  inputFileId: z.string(),
  endpoint: z.enum(['/v1/chat/completions', '/v1/responses', '/v1/embeddings']),
  /** Errors of the first lines of an input file that was not accepted. */
  errors: z
    .array(
      z.object({
        code: z.string(),
        line: z.int().nullable(),
        message: z.string(),
        param: z.string().nullable(),
      }),
    )
    .optional(),
  /** Sizes in bytes of its files, once they were measured. */
  sizes: z.object({ output: z.number(), errors: z.number() }).optional(),
});
export type BatchFields = z.infer<typeof batchFields>;

/** Returns the endpoint of the lines of a batch as items name it. */
export const useOfBatch = ({ endpoint }: BatchFields): string => endpoint.slice('/v1/'.length);

/** Schema of a bulk job as it is read. */
export const bulkRow = z.object({
  id: z.string(),
  organizationId: z.string(),
  keyId: z.string(),
  requestId: z.string(),
  status: z.enum(['in_progress', 'paused', 'completed', 'stopped', 'canceled']),
  stopReason: z.string().nullable(),
  concurrency: z.int(),
  maxMicro: z.number().nullable(),
  maxFailedPercent: z.number().nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  /** Recipe of the request, as `name@version`; null if it had none. */
  recipe: z.string().nullable(),
  /** Null if it is no batch. */
  batch: batchFields.nullable(),
  /** Files that a batch has: its answers, its errors. */
  files: z.array(z.enum(['output', 'errors'])),
  total: z.int(),
  waiting: z.int(),
  /** Number of started items, with those in `awaiting`. */
  running: z.int(),
  /** Number of items whose jobs await an approval. */
  awaiting: z.int(),
  completed: z.int(),
  failed: z.int(),
  canceled: z.int(),
  invalid: z.int(),
  /** Errors of the first invalid items. */
  invalidItems: z.array(z.object({ path: z.string(), message: z.string() })),
  estimatedMicro: z.number(),
  /** Price of the waiting items. */
  waitingPriceMicro: z.number(),
  reservedMicro: z.number(),
  /** Price of the ended items. */
  endedPriceMicro: z.number(),
  chargedMicro: z.number(),
  /** Greatest number of an end of an item. */
  lastEnd: z.number(),
  createdAtMs: z.number(),
  pausedAtMs: z.number().nullable(),
  resumeAtMs: z.number().nullable(),
  completedAtMs: z.number().nullable(),
  /** Time at which the items that have not started are canceled; null if there is none. */
  expiresAtMs: z.number().nullable(),
  /** Time at which it was canceled or expired; null if it was not. */
  canceledAtMs: z.number().nullable(),
  /** Time of a change of which the workflow may not know yet. */
  unsignaledSinceMs: z.number().nullable(),
  /** Number of the last ended items, at most 100, and the time since the first of them. */
  recentEnds: z.number(),
  recentMs: z.number().nullable(),
});
export type BulkRecord = z.infer<typeof bulkRow>;

/** Schema of an item as it is read. */
export const bulkItemRow = z.object({
  index: z.number(),
  item_id: z.string().nullable(),
  type: z.string(),
  state: z.enum(['waiting', 'running', 'awaiting_approval', 'completed', 'failed', 'canceled']),
  round: z.number(),
  job_id: z.string().nullable(),
  price: z.number(),
  charged: z.number(),
  /** `param`: the invalid field of a line of a batch. */
  error: z
    .object({ code: z.string(), message: z.string(), param: z.string().optional() })
    .nullable(),
  claimed_at: z.number().nullable(),
  ended_at: z.number().nullable(),
  is_chat: z.boolean(),
  /** Answer of a chat, as JSON text; null if it has none, or it was deleted because of its age. */
  answer: z.string().nullable(),
  input_tokens: z.number().nullable(),
  output_tokens: z.number().nullable(),
  /** Place of the end among the ends of the bulk job; null if the item has not ended. */
  end_number: z.number().nullable(),
});
export type BulkItemRecord = z.infer<typeof bulkItemRow>;

/** Item with the row of its job if it is completed or awaits an approval, and not archived. */
export interface ItemWithJob {
  item: BulkItemRecord;
  job: JobRecord | null;
}

/** Schema of an event of a bulk job. */
const bulkEvent = z.object({
  bulkId: z.string(),
  type: z.enum(bulkEvents),
  stopReason: z.string().nullable(),
  createdAtMs: z.number(),
});

const selectBulks = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT b.id, b.organization_id AS "organizationId", b.key_id AS "keyId", b.request_id AS "requestId",
    b.status, b.stop_reason AS "stopReason", b.concurrency, b.max_credits AS "maxMicro",
    b.max_failed_percent AS "maxFailedPercent", b.metadata, b.recipe, b.batch, bulk_files(b) AS files, b.total, b.waiting, b.running, b.awaiting, b.completed,
    b.failed, b.canceled, b.invalid, b.invalid_items AS "invalidItems", b.estimated AS "estimatedMicro",
    b.waiting_price AS "waitingPriceMicro", b.reserved AS "reservedMicro", b.ended_price AS "endedPriceMicro",
    b.charged AS "chargedMicro", b.last_end AS "lastEnd", b.created_at AS "createdAtMs",
    b.paused_at AS "pausedAtMs", b.resume_at AS "resumeAtMs", b.completed_at AS "completedAtMs",
    b.expires_at AS "expiresAtMs", b.canceled_at AS "canceledAtMs", b.unsignaled_since AS "unsignaledSinceMs", e."recentEnds", e."recentMs"
  FROM bulk b LEFT JOIN LATERAL (
    SELECT count(*) AS "recentEnds",
      (extract(epoch FROM clock_timestamp() - min(i.ended_at)) * 1000)::float8 AS "recentMs"
    FROM (SELECT ended_at FROM bulk_item WHERE bulk_id = b.id AND end_number IS NOT NULL AND job_id IS NOT NULL
      AND b.completed_at IS NULL ORDER BY end_number DESC LIMIT 100) AS i) AS e ON true
  WHERE b.status <> 'receiving' AND ${where}`;

interface ItemListing {
  state?: BulkItemRecord['state'] | undefined;
  /** Index of the last item on the previous page. */
  afterIndex?: number | undefined;
  limit: number;
}

interface BulkFilter {
  status?: string | undefined;
  /** Id of the last bulk job on the previous page. */
  beforeId?: string | undefined;
  /** True to list only batches. */
  batches?: true;
  limit: number;
}

function selectPage(
  organizationId: string,
  { status, beforeId, batches, limit }: BulkFilter,
): FragmentSqlToken {
  const conditions = [sql.fragment`b.organization_id = ${organizationId}`];
  if (batches) conditions.push(sql.fragment`b.batch IS NOT NULL`);
  if (status !== undefined) conditions.push(sql.fragment`b.status = ${status}`);
  if (beforeId !== undefined) conditions.push(sql.fragment`b.id < ${beforeId}`);
  const where = sql.fragment`${sql.join(conditions, sql.fragment` AND `)}`;
  return sql.fragment`${selectBulks(where)} ORDER BY b.id DESC LIMIT ${limit}`;
}

const idRow = z.object({ id: z.string() });

/** Maximum number of results that are read at the same time. */
const resultsPerRead = 50;
/** Size of the answers in bytes after which a read ends, because answers with vectors have up to 4 MB. */
const answerBytesPerRead = 2_000_000;

interface ReadDeps {
  pool: DatabasePool;
  reads: Pick<JobReads, 'readMany'>;
}

/** Condition of the items of a state, of which `awaiting_approval` is in the row of the job. */
export function isInState(state: BulkItemRecord['state']): FragmentSqlToken {
  if (state === 'awaiting_approval') return sql.fragment`i.state = 'running' AND j.awaiting`;
  if (state === 'running') return sql.fragment`i.state = 'running' AND j.awaiting IS NOT TRUE`;
  return sql.fragment`i.state = ${state}`;
}

/** Items to read: those behind a value of a column, in its order. */
interface ItemRange {
  where: FragmentSqlToken;
  by: 'index' | 'end_number';
  after: number;
  limit: number;
}

/**
 * Reads items, fewer than `limit` if their answers are large. Completed items, and items that await an approval,
 * contain their jobs.
 */
async function listItems(
  { pool, reads }: ReadDeps,
  bulk: Pick<BulkRecord, 'id' | 'organizationId'>,
  { where, by, after, limit }: ItemRange,
): Promise<ItemWithJob[]> {
  const column = sql.fragment`i.${sql.identifier([by])}`;
  const from = sql.fragment`FROM bulk_item i LEFT JOIN job j ON j.id = i.job_id AND i.state = 'running'`;
  const answerBytes = sql.fragment`CASE WHEN i.answer IS NULL THEN 0 ELSE i.stored_bytes END`;
  const items = await pool.any(sql.type(bulkItemRow)`
    SELECT i.index, i.item_id, i.type, CASE WHEN j.awaiting THEN 'awaiting_approval' ELSE i.state END AS state,
      i.round, i.job_id, i.price, i.charged, i.error, i.claimed_at, i.ended_at, i.end_number,
      i.chat_min IS NOT NULL AS is_chat, i.answer, r.input_tokens, r.output_tokens
    ${from} LEFT JOIN reservation r ON r.id = i.job_id AND i.chat_min IS NOT NULL AND r.state <> 'reserved'
    WHERE i.bulk_id = ${bulk.id} AND ${column} IN (
      SELECT p.place FROM (
        SELECT ${column} AS place, sum(${answerBytes}) OVER (ORDER BY ${column}) - ${answerBytes} AS bytes_before
        ${from} WHERE i.bulk_id = ${bulk.id} AND ${column} > ${after} AND ${where}
        ORDER BY ${column} LIMIT ${limit}) AS p
      WHERE p.bytes_before < ${answerBytesPerRead})
    ORDER BY ${column}`);
  const ids = items.flatMap(({ job_id: id, state }) =>
    id && (state === 'completed' || state === 'awaiting_approval') ? [id] : [],
  );
  const jobs = ids.length === 0 ? [] : await reads.readMany(bulk.organizationId, ids);
  const byId = new Map(jobs.map((job) => [job.id, job]));
  return items.map((item) => ({ item, job: byId.get(item.job_id ?? '') ?? null }));
}

/** Yields items in portions. */
async function* listPortions(
  deps: ReadDeps,
  bulk: BulkRecord,
  { where, by, after: first }: Omit<ItemRange, 'limit'>,
): AsyncGenerator<ItemWithJob[]> {
  for (let after: number | null = first; after !== null;) {
    const range: ItemRange = { where, by, after, limit: resultsPerRead };
    const portion: ItemWithJob[] = await listItems(deps, bulk, range);
    if (portion.length > 0) yield portion;
    after = portion.at(-1)?.item[by] ?? null;
  }
}

/** Creates the functions that read bulk jobs. */
export function createBulkReads(pool: DatabasePool, reads: ReadDeps['reads']) {
  return {
    /** Reads a bulk job; null if the organization has no such bulk job. */
    read: (organizationId: string, bulkId: string): Promise<BulkRecord | null> =>
      pool.maybeOne(
        sql.type(bulkRow)`${selectBulks(
          sql.fragment`b.id = ${bulkId} AND b.organization_id = ${organizationId}`,
        )}`,
      ),
    /** Reads the bulk jobs with these ids. Omits those of other organizations. */
    readMany: (
      organizationId: string,
      bulkIds: readonly string[],
    ): Promise<readonly BulkRecord[]> =>
      pool.any(
        sql.type(bulkRow)`${selectBulks(sql.fragment`b.organization_id = ${organizationId}
          AND b.id = ANY(${sql.array([...bulkIds], 'text')})`)}`,
      ),
    /** Returns the ids of those of the given bulk jobs that have ended. */
    ended: (bulkIds: readonly string[]): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`SELECT id FROM bulk
        WHERE id = ANY(${sql.array([...bulkIds], 'text')}) AND completed_at IS NOT NULL`),
    /** Lists the bulk jobs of an organization, newest first. */
    list: (organizationId: string, filter: BulkFilter): Promise<readonly BulkRecord[]> =>
      pool.any(sql.type(bulkRow)`${selectPage(organizationId, filter)}`),
    /** Lists items in their order, with the jobs of those that are completed, and whether there are more. */
    async items(
      bulk: BulkRecord,
      { state, afterIndex = -1, limit }: ItemListing,
    ): Promise<{ items: ItemWithJob[]; hasMore: boolean }> {
      const where = state === undefined ? sql.fragment`true` : isInState(state);
      const read = (after: number, count: number): Promise<ItemWithJob[]> =>
        listItems({ pool, reads }, bulk, { where, by: 'index', after, limit: count });
      const items = await read(afterIndex, limit + 1);
      const last = items.at(-1);
      if (items.length > limit || !last)
        return { items: items.slice(0, limit), hasMore: items.length > limit };
      return { items, hasMore: (await read(last.item.index, 1)).length > 0 };
    },
    /**
     * Yields in portions the items that ended after a number, in the order of their ends. Items that
     * end after the bulk job was read are left out, so that a retried item is not read twice.
     */
    results(bulk: BulkRecord, afterEnd: number): AsyncGenerator<ItemWithJob[]> {
      const upTo = sql.fragment`i.end_number <= ${bulk.lastEnd}`;
      const listing = { where: upTo, by: 'end_number', after: afterEnd } as const;
      return listPortions({ pool, reads }, bulk, listing);
    },
    /**
     * Yields in portions the completed items, or the other ended ones, in their order. Items that end after the
     * bulk job was read are left out.
     */
    endedItems(bulk: BulkRecord, isCompleted: boolean): AsyncGenerator<ItemWithJob[]> {
      const states = isCompleted ? ['completed'] : ['failed', 'canceled'];
      const where = sql.fragment`i.state = ANY(${sql.array(states, 'text')}) AND i.end_number <= ${bulk.lastEnd}`;
      return listPortions({ pool, reads }, bulk, { where, by: 'index', after: -1 });
    },
    /** Reads an event that a webhook reports; null if it does not exist. */
    readEvent: (eventId: string): Promise<z.infer<typeof bulkEvent> | null> =>
      pool.maybeOne(sql.type(
        bulkEvent,
      )`SELECT bulk_id AS "bulkId", type, stop_reason AS "stopReason",
        created_at AS "createdAtMs" FROM bulk_event WHERE id = ${eventId}`),
  };
}
export type BulkReads = ReturnType<typeof createBulkReads>;

/** Creates the functions with which operators read the bulk jobs of all organizations. */
export function createBulkOverview(pool: DatabasePool) {
  return {
    /** Reads a bulk job of any organization; null if it does not exist. */
    find: (bulkId: string): Promise<BulkRecord | null> =>
      pool.maybeOne(sql.type(bulkRow)`${selectBulks(sql.fragment`b.id = ${bulkId}`)}`),
    /** Lists the open bulk jobs of one or all organizations, oldest first. */
    listOpen: (organizationId: string | null, limit: number): Promise<readonly BulkRecord[]> =>
      pool.any(
        sql.type(bulkRow)`${selectBulks(sql.fragment`b.completed_at IS NULL
          AND (${organizationId}::text IS NULL OR b.organization_id = ${organizationId}::text)`)}
        ORDER BY b.created_at, b.id LIMIT ${limit}`,
      ),
  };
}
