/** Reads usage records of an organization: one record for each job and each chat. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import {
  afterCursor,
  listedTimes,
  buildPage,
  recordConditions,
  type RecordFilter,
} from '../platform/record-lists.ts';
import { accountColumns, accountState } from './ledger.ts';

/** Schema of the usage record of a job or chat. Amounts are micro-credits. */
const usageRecord = z.object({
  id: z.string(),
  /** `chat`, or the type of the Studio job. */
  type: z.string(),
  model: z.string().nullable(),
  status: z.enum(['reserved', 'charged', 'released']),
  /** Charge minus refunds. */
  creditsMicro: z.number(),
  refundedMicro: z.number(),
  inputTokens: z.number().nullable(),
  outputTokens: z.number().nullable(),
  cachedInputTokens: z.number().nullable(),
  cacheWriteTokens: z.number().nullable(),
  reasoningTokens: z.number().nullable(),
  jobId: z.string().nullable(),
  keyId: z.string().nullable(),
  requestId: z.string().nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  /** Rows of the price book that set the price; null if the catalog did. */
  priceRows: z.array(z.string()).nullable(),
  createdAtMs: z.number(),
  /** Creation time in Unix microseconds. The cursor of the next page contains it. */
  createdAtMicros: z.number(),
});
export type UsageRecord = z.infer<typeof usageRecord>;

/** Filter and page of a list of usage records, newest first. */
interface UsageListing extends UsageFilter {
  cursor: string | undefined;
  limit: number;
}

/** Page of usage records, with the state of the account. */
export interface UsagePage {
  account: z.infer<typeof accountState>;
  records: UsageRecord[];
  nextCursor: string | null;
}

const row = accountState.extend({ records: z.array(usageRecord) });

/** Creates the functions that read usage records. */
export function createUsageReads(pool: DatabasePool) {
  return {
    /** Reads a page of records. @throws GatewayError INVALID_REQUEST for an invalid cursor */
    async page(organizationId: string, listing: UsageListing): Promise<UsagePage> {
      const { records, ...account } = await pool.one(sql.type(row)`
        WITH page AS (${selectPage(organizationId, listing)})
        SELECT ${accountColumns},
          coalesce((SELECT jsonb_agg(p ORDER BY p."createdAtMicros" DESC, p.id DESC) FROM page p),
            '[]') AS records
        FROM account a WHERE a.organization_id = ${organizationId}`);
      const { page, nextCursor } = buildPage(records, listing.limit, ({ id }) => id);
      return { account, records: page, nextCursor };
    },
    /** Reads the record of a chat; null if the organization has no such chat. */
    async chat(organizationId: string, id: string): Promise<UsageRecord | null> {
      return pool.maybeOne(sql.type(usageRecord)`
        SELECT ${recordColumns}
        FROM (${recordSelects.chat} WHERE x.id = ${id} AND x.organization_id = ${organizationId}) AS found`);
    },
  };
}

/** Columns of `usageRecord`, selected from the statements of `recordSelects`. */
const recordColumns = sql.fragment`id, type, model, status, net AS "creditsMicro",
  refunded AS "refundedMicro", input_tokens AS "inputTokens", output_tokens AS "outputTokens",
  cached_input_tokens AS "cachedInputTokens", cache_write_tokens AS "cacheWriteTokens",
  reasoning_tokens AS "reasoningTokens", job_id AS "jobId", key_id AS "keyId",
  request_id AS "requestId", metadata, price_rows AS "priceRows", ${listedTimes}`;

/** Builds the statement that reads a page and one more record, with one index per kind. */
function selectPage(organizationId: string, listing: UsageListing): FragmentSqlToken {
  const { cursor, limit } = listing;
  const bounds = afterCursor(cursor, sql.fragment`x.id`);
  const newest = usageRecords(organizationId, { ...listing, bounds }).map(
    (records) =>
      sql.fragment`(${records} ORDER BY x.created_at DESC, x.id DESC LIMIT ${limit + 1})`,
  );
  return sql.fragment`SELECT ${recordColumns}
    FROM (${sql.join(newest, sql.fragment` UNION ALL `)}) AS records
    ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`;
}

/** Filter of usage records. */
export interface UsageFilter extends RecordFilter {
  /** `chat`, or a type of Studio job. */
  type?: string | undefined;
  status?: 'reserved' | 'charged' | 'released' | undefined;
}

interface RecordSelection extends UsageFilter {
  /** Additional SQL conditions on the row `x` of a job or chat. */
  bounds?: FragmentSqlToken[];
}

const sharedColumns = sql.fragment`x.id, x.created_at, x.key_id, x.model, r.state AS status,
  coalesce(r.charged, 0) - coalesce(r.refunded, 0) AS net, coalesce(r.refunded, 0) AS refunded,
  r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cache_write_tokens, r.reasoning_tokens,
  x.request_id, x.metadata, r.price_rows`;

/** Statements that select the records of jobs and of chats. Both have the same columns. */
const recordSelects = {
  job: sql.fragment`SELECT ${sharedColumns}, x.type, x.id AS job_id
      FROM job x JOIN reservation r ON r.id = x.id`,
  // A chat that is no job has no row in `job`, so both `x` and `r` are its reservation.
  chat: sql.fragment`SELECT ${sharedColumns}, 'chat' AS type, NULL AS job_id
      FROM reservation x JOIN LATERAL (SELECT x.*) r ON x.kind = 'chat' AND x.id NOT LIKE 'job\\_%'`,
};

/**
 * Builds the statements that select the filtered records: one for jobs and one for chats, or only
 * one of them. Both have the columns id, created_at, key_id, type, model, status, net and refunded
 * (micro-credits), the tokens of a chat, request_id, job_id and metadata.
 */
export function usageRecords(
  organizationId: string,
  { type, status, bounds = [], ...filter }: RecordSelection,
): FragmentSqlToken[] {
  const { job, chat } = recordSelects;
  const selects = type === undefined ? [job, chat] : [type === 'chat' ? chat : job];
  return selects.map((select) => {
    const conditions = [...recordConditions(organizationId, filter), ...bounds];
    if (status !== undefined) conditions.push(sql.fragment`r.state = ${status}`);
    if (type !== undefined && select === job) conditions.push(sql.fragment`x.type = ${type}`);
    return sql.fragment`${select} WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
  });
}
