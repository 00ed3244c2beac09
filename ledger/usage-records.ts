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
import { accountColumns, accountState } from './account.ts';

/** Record of a job or chat; amounts in micro-credits. */
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
  createdAtMs: z.number(),
  /** Creation time in microseconds: the position of the record for the cursor of the next page. */
  createdAtMicros: z.number(),
});
export type UsageRecord = z.infer<typeof usageRecord>;

/** Request for a page of records, newest first. */
interface UsageListing extends UsageFilter {
  cursor: string | undefined;
  limit: number;
}

/** Page of records. */
export interface UsagePage {
  account: z.infer<typeof accountState>;
  records: UsageRecord[];
  nextCursor: string | null;
}

const row = accountState.extend({ records: z.array(usageRecord) });

/** Creates the read functions of usage records. */
export function createUsageReads(pool: DatabasePool) {
  return {
    /** Reads a page. @throws GatewayError INVALID_REQUEST for an invalid cursor */
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
        FROM (${kinds.chat} WHERE x.id = ${id} AND x.organization_id = ${organizationId}) AS found`);
    },
  };
}

/** Columns of a record, selected from the statements of `kinds`. */
const recordColumns = sql.fragment`id, type, model, status, net AS "creditsMicro",
  refunded AS "refundedMicro", input_tokens AS "inputTokens", output_tokens AS "outputTokens",
  cached_input_tokens AS "cachedInputTokens", cache_write_tokens AS "cacheWriteTokens",
  reasoning_tokens AS "reasoningTokens", job_id AS "jobId", key_id AS "keyId",
  request_id AS "requestId", metadata, ${listedTimes}`;

/** Builds the statement that reads a page and one more record, using one index per kind. */
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

/** Filter of records. */
export interface UsageFilter extends RecordFilter {
  /** `chat`, or a type of Studio job. */
  type?: string | undefined;
  status?: 'reserved' | 'charged' | 'released' | undefined;
}

interface Records extends UsageFilter {
  /** Additional conditions on the rows `x`. */
  bounds?: FragmentSqlToken[];
}

const columns = sql.fragment`x.id, x.created_at, x.key_id, x.model, r.state AS status,
  coalesce(r.charged, 0) - coalesce(r.refunded, 0) AS net, coalesce(r.refunded, 0) AS refunded,
  r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cache_write_tokens, r.reasoning_tokens,
  x.request_id, x.metadata`;

/** Statements that select the records of each kind, with the same columns. */
const kinds = {
  job: sql.fragment`SELECT ${columns}, x.type, x.id AS job_id
      FROM job x JOIN reservation r ON r.id = x.id`,
  // A chat has no row in `job`, so its reservation is both `x` and `r`.
  chat: sql.fragment`SELECT ${columns}, 'chat' AS type, NULL AS job_id
      FROM reservation x JOIN LATERAL (SELECT x.*) r ON x.kind = 'chat'`,
};

/**
 * Builds a statement for each kind of record in the filter. All have the columns id, created_at,
 * key_id, type, model, status, net and refunded (micro-credits), the tokens of a chat, request_id,
 * job_id, metadata.
 */
export function usageRecords(
  organizationId: string,
  { type, status, bounds = [], ...filter }: Records,
): FragmentSqlToken[] {
  const ofType = type === 'chat' ? [kinds.chat] : [kinds.job];
  const listedKinds = type === undefined ? Object.values(kinds) : ofType;
  return listedKinds.map((kind) => {
    const conditions = [...recordConditions(organizationId, filter), ...bounds];
    if (status !== undefined) conditions.push(sql.fragment`r.state = ${status}`);
    if (type !== undefined && kind === kinds.job) conditions.push(sql.fragment`x.type = ${type}`);
    return sql.fragment`${kind} WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
  });
}
