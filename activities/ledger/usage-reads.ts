/**
 * What an organization used: its balance, its window and one record per job and chat, read in one
 * statement from the very rows that the ledger settles, so that the sums always agree.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { fieldError } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';

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
  createdAtMs: z.number(),
  /** Where the next page goes on. */
  createdAtMicros: z.number(),
});
/** See `usageRecord`. */
export type UsageRecord = z.infer<typeof usageRecord>;

const accountWindow = z.object({
  used: z.number(),
  startedAtMs: z.number(),
  resetAtMs: z.number(),
});

/** The state of the account when the records were read; a window that has ended is `null`. */
interface AccountState {
  posted: number;
  reserved: number;
  windowLimit: number | null;
  window: z.infer<typeof accountWindow> | null;
}

/** Which records to read; newest first. */
interface UsageListing {
  /** Only records made strictly later, Unix ms. */
  afterMs: number | undefined;
  keyId: string | undefined;
  /** From `UsagePage.nextCursor`. */
  cursor: string | undefined;
  limit: number;
}

/** A page of records. */
export interface UsagePage {
  account: AccountState;
  records: UsageRecord[];
  /** Null: there is no further page. */
  nextCursor: string | null;
}

/** Reads over a pool. */
export interface UsageReads {
  /** @throws GatewayError INVALID_REQUEST for a cursor that no page gave */
  page: (organizationId: string, listing: UsageListing) => Promise<UsagePage>;
}

const row = z.object({
  posted: z.number(),
  reserved: z.number(),
  window_limit: z.number().nullable(),
  window: accountWindow.nullable(),
  records: z.array(usageRecord),
});

/** See `UsageReads`. */
export function createUsageReads(pool: DatabasePool): UsageReads {
  return {
    async page(organizationId, listing) {
      const found = await pool.one(sql.type(row)`
        WITH chosen AS MATERIALIZED (${chosen(organizationId, listing)}),
        page AS (
          SELECT chosen.id, coalesce(j.type, 'chat') AS type,
            coalesce(j.model, c.model, l.model) AS model, coalesce(r.state, l.state) AS status,
            coalesce(r.charged, CASE l.state WHEN 'charged' THEN l.amount END, 0) AS "chargedMicro",
            coalesce(c.input_tokens, l.input_tokens) AS "inputTokens",
            coalesce(c.output_tokens, l.output_tokens) AS "outputTokens", j.id AS "jobId",
            coalesce(j.key_id, c.key_id, l.key_id) AS "keyId",
            coalesce(j.request_id, c.request_id, l.request_id) AS "requestId",
            floor(extract(epoch FROM chosen.created_at) * 1000) AS "createdAtMs",
            (extract(epoch FROM chosen.created_at) * 1000000)::bigint AS "createdAtMicros"
          FROM chosen
            LEFT JOIN reservation r ON r.id = chosen.id
            LEFT JOIN job j ON j.id = chosen.id
            LEFT JOIN chat_request c ON c.id = chosen.id
            LEFT JOIN leased_chat l ON l.id = chosen.id
        )
        SELECT a.posted, a.reserved, a.window_limit,
          CASE WHEN ledger_window_end(a.window_started_at) > now() THEN jsonb_build_object(
            'used', a.window_used, 'startedAtMs', unix_ms(a.window_started_at),
            'resetAtMs', unix_ms(ledger_window_end(a.window_started_at))) END AS window,
          coalesce((SELECT jsonb_agg(p ORDER BY p."createdAtMicros" DESC, p.id DESC) FROM page p),
            '[]') AS records
        FROM account a WHERE a.organization_id = ${organizationId}`);
      const records = found.records.slice(0, listing.limit);
      const last = records.at(-1);
      return {
        account: {
          posted: found.posted,
          reserved: found.reserved,
          windowLimit: found.window_limit,
          window: found.window,
        },
        records,
        nextCursor: last && found.records.length > listing.limit ? cursorOf(last) : null,
      };
    },
  };
}

/** Ids of a page and of one record more, found through an index whatever is asked for. */
function chosen(organizationId: string, listing: UsageListing): FragmentSqlToken {
  const from = (source: string, conditions: FragmentSqlToken[]): FragmentSqlToken => {
    const table = sql.identifier([source]);
    const where = [sql.fragment`organization_id = ${organizationId}`, ...conditions];
    return sql.fragment`SELECT id, created_at FROM ${table}
      WHERE ${sql.join([...where, ...bounds(listing)], sql.fragment` AND `)}
      ORDER BY created_at DESC, id DESC LIMIT ${listing.limit + 1}`;
  };
  const ofKey = listing.keyId === undefined ? [] : [sql.fragment`key_id = ${listing.keyId}`];
  // A job and a chat are written with their reservation, at the same time to the microsecond; chats of
  // a lease are written for themselves, and the lease is nobody's request.
  const single =
    listing.keyId === undefined
      ? sql.fragment`(${from('reservation', [sql.fragment`kind <> 'lease'`])})`
      : sql.fragment`(${from('job', ofKey)}) UNION ALL (${from('chat_request', ofKey)})`;
  return sql.fragment`SELECT id, created_at
    FROM (${single} UNION ALL (${from('leased_chat', ofKey)})) AS of_caller
    ORDER BY created_at DESC, id DESC LIMIT ${listing.limit + 1}`;
}

function bounds(listing: UsageListing): FragmentSqlToken[] {
  const found: FragmentSqlToken[] = [];
  if (listing.afterMs !== undefined) {
    // Records show milliseconds: the next one shown is the first that is later.
    found.push(sql.fragment`created_at >= timestamp_of_ms(${listing.afterMs + 1}::bigint)`);
  }
  if (listing.cursor !== undefined) {
    const { micros, id } = parseCursor(listing.cursor);
    found.push(sql.fragment`(created_at, id) <
      (timestamptz 'epoch' + ${micros}::bigint * interval '1 microsecond', ${id})`);
  }
  return found;
}

const cursorForm = /^(\d{1,16})\.(\w{1,100})$/;

function cursorOf(record: UsageRecord): string {
  return Buffer.from(`${record.createdAtMicros}.${record.id}`).toString('base64url');
}

function parseCursor(cursor: string): { micros: string; id: string } {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const [, micros, id] = cursorForm.exec(text) ?? [];
  if (micros === undefined || id === undefined) {
    const message = 'is not a cursor of this list';
    throw fieldError('INVALID_REQUEST', 'cursor', message);
  }
  return { micros, id };
}
