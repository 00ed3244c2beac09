/**
 * What an organization used: its balance, its window, one record per job and chat, and sums of them, read from the
 * very rows that the ledger settles, so that they always agree.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import {
  behind,
  listedTimes,
  timePage,
  recordConditions,
  type RecordFilter,
} from '../jobs/record-lists.ts';

/** One job or chat as the caller's record; amounts in micro-credits, times as named. */
const usageRecord = z.object({
  id: z.string(),
  /** `chat`, or the type of the Studio job. */
  type: z.string(),
  model: z.string().nullable(),
  status: z.enum(['reserved', 'charged', 'released']),
  chargedMicro: z.number(),
  inputTokens: z.number().nullable(),
  outputTokens: z.number().nullable(),
  jobId: z.string().nullable(),
  keyId: z.string().nullable(),
  requestId: z.string().nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  createdAtMs: z.number(),
  /** Where the next page goes on. */
  createdAtMicros: z.number(),
});
/** Job or chat with its charge. */
export type UsageRecord = z.infer<typeof usageRecord>;

/** The state of an account; amounts in micro-credits. */
export const accountState = z.object({
  posted: z.number(),
  reserved: z.number(),
  windowLimit: z.number().nullable(),
  /** Null: none is open. */
  window: z.object({ used: z.number(), startedAtMs: z.number(), resetAtMs: z.number() }).nullable(),
});

/** The same of the row `a`. */
export const accountColumns = sql.fragment`a.posted, a.reserved, a.window_limit AS "windowLimit",
  CASE WHEN ledger_window_end(a.window_started_at) > now() THEN jsonb_build_object(
    'used', a.window_used, 'startedAtMs', unix_ms(a.window_started_at),
    'resetAtMs', unix_ms(ledger_window_end(a.window_started_at))) END AS window`;

/** Which records to read; newest first. */
interface UsageListing extends UsageFilter {
  /** From `UsagePage.nextCursor`. */
  cursor: string | undefined;
  limit: number;
}

/** A page of records. */
export interface UsagePage {
  /** As it was when the records were read. */
  account: z.infer<typeof accountState>;
  records: UsageRecord[];
  /** Null: there is no further page. */
  nextCursor: string | null;
}

const row = accountState.extend({ records: z.array(usageRecord) });

/** Reads over a pool. */
export function createUsageReads(pool: DatabasePool) {
  return {
    /** @throws GatewayError INVALID_REQUEST for a cursor that no page gave */
    async page(organizationId: string, listing: UsageListing): Promise<UsagePage> {
      const { records, ...account } = await pool.one(sql.type(row)`
        WITH page AS (${pageOf(organizationId, listing)})
        SELECT ${accountColumns},
          coalesce((SELECT jsonb_agg(p ORDER BY p."createdAtMicros" DESC, p.id DESC) FROM page p),
            '[]') AS records
        FROM account a WHERE a.organization_id = ${organizationId}`);
      const { page, nextCursor } = timePage(records, listing.limit, ({ id }) => id);
      return { account, records: page, nextCursor };
    },
  };
}

/** A page of records and one more: as many of each kind, found through an index, then the newest of them. */
function pageOf(organizationId: string, listing: UsageListing): FragmentSqlToken {
  const { cursor, limit } = listing;
  const bounds = behind(cursor, sql.fragment`x.id`);
  const newest = usageRecords(organizationId, { ...listing, bounds }).map(
    (records) =>
      sql.fragment`(${records} ORDER BY x.created_at DESC, x.id DESC LIMIT ${limit + 1})`,
  );
  return sql.fragment`SELECT id, type, model, status, charged AS "chargedMicro",
      input_tokens AS "inputTokens", output_tokens AS "outputTokens", job_id AS "jobId",
      key_id AS "keyId", request_id AS "requestId", metadata,
      ${listedTimes}
    FROM (${sql.join(newest, sql.fragment` UNION ALL `)}) AS records
    ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`;
}

/** Which records. */
interface UsageFilter extends RecordFilter {
  /** `chat`, or a type of job. */
  type?: string | undefined;
  status?: 'reserved' | 'charged' | 'released' | undefined;
}

interface Records extends UsageFilter {
  /** Further conditions on the rows `x`. */
  bounds?: FragmentSqlToken[];
}

const ofReservation = sql.fragment`r.state AS status, coalesce(r.charged, 0) AS charged`;

/** The kinds of record: their columns, alike in both. */
const kinds = {
  job: sql.fragment`SELECT x.id, x.created_at, x.key_id, x.type, x.model, ${ofReservation},
      NULL::bigint AS input_tokens, NULL::bigint AS output_tokens, x.request_id, x.id AS job_id, x.metadata
      FROM job x JOIN reservation r ON r.id = x.id`,
  chat: sql.fragment`SELECT x.id, x.created_at, x.key_id, 'chat' AS type, x.model, ${ofReservation},
      x.input_tokens, x.output_tokens, x.request_id, NULL AS job_id, x.metadata
      FROM chat_request x JOIN reservation r ON r.id = x.id`,
};

/**
 * A statement for each kind of record that is wanted, all with the columns id, created_at, key_id, type,
 * model, status, charged (micro-credits), input_tokens, output_tokens, request_id, job_id, metadata.
 */
function usageRecords(
  organizationId: string,
  { type, status, bounds = [], ...filter }: Records,
): FragmentSqlToken[] {
  const ofType = type === 'chat' ? [kinds.chat] : [kinds.job];
  const wanted = type === undefined ? Object.values(kinds) : ofType;
  return wanted.map((kind) => {
    const conditions = [...recordConditions(organizationId, filter), ...bounds];
    if (status !== undefined) conditions.push(sql.fragment`r.state = ${status}`);
    if (type !== undefined && kind === kinds.job) conditions.push(sql.fragment`x.type = ${type}`);
    return sql.fragment`${kind} WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
  });
}

/** What records are put together by; `metadata.team` is the value of a tag. */
export type UsageGroup = 'day' | 'model' | 'key' | 'type' | `metadata.${string}`;

const sums = z.object({
  requests: z.number(),
  /** Micro-credits that were charged. */
  chargedMicro: z.number(),
  inputTokens: z.number(),
  outputTokens: z.number(),
});
/** One row of a summary: the values of its groups in the order asked for, and the sums. */
const usageSum = sums.extend({ keys: z.array(z.string().nullable()) });
/** Sum of charges. */
export type UsageSum = z.infer<typeof usageSum>;

/** What to sum up. */
interface UsageSummary extends UsageFilter {
  groupBy: readonly UsageGroup[];
  /** Most rows that are read. */
  limit: number;
}

const columns: Record<Exclude<UsageGroup, `metadata.${string}`>, FragmentSqlToken> = {
  day: sql.fragment`to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
  model: sql.fragment`model`,
  key: sql.fragment`key_id`,
  type: sql.fragment`type`,
};

function columnOf(group: UsageGroup): FragmentSqlToken {
  const [, tag] = /^metadata\.(.*)$/.exec(group) ?? [];
  if (tag !== undefined) return sql.fragment`metadata->>${tag}`;
  // oxlint-disable-next-line no-unsafe-type-assertion -- what is no tag is one of the others
  return columns[group as keyof typeof columns];
}

/** Sums up, in the order of the groups. */
export function createSumUsage(pool: DatabasePool) {
  return (
    organizationId: string,
    { groupBy, limit, ...filter }: UsageSummary,
  ): Promise<readonly UsageSum[]> => {
    const records = sql.join(usageRecords(organizationId, filter), sql.fragment` UNION ALL `);
    const keys = sql.join(groupBy.map(columnOf), sql.fragment`, `);
    return pool.any(sql.type(usageSum)`
      SELECT jsonb_build_array(${keys}) AS keys, count(*) AS requests,
        sum(charged)::bigint AS "chargedMicro",
        coalesce(sum(input_tokens), 0)::bigint AS "inputTokens",
        coalesce(sum(output_tokens), 0)::bigint AS "outputTokens"
      FROM (${records}) AS records GROUP BY 1 ORDER BY 1 LIMIT ${limit}`);
  };
}
