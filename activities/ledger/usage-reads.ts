/**
 * What an organization used: its balance, its window and one record per job and chat, read in one
 * statement from the very rows that the ledger settles, so that the sums always agree.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { behind, listedTimes, timePage } from '../jobs/time-cursor.ts';
import { usageRecords, type UsageFilter } from './usage-records.ts';

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
/** See `usageRecord`. */
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

/** Reads over a pool. */
export interface UsageReads {
  /** @throws GatewayError INVALID_REQUEST for a cursor that no page gave */
  page: (organizationId: string, listing: UsageListing) => Promise<UsagePage>;
}

const row = accountState.extend({ records: z.array(usageRecord) });

/** See `UsageReads`. */
export function createUsageReads(pool: DatabasePool): UsageReads {
  return {
    async page(organizationId, listing) {
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
