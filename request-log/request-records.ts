/** Reads the requests of an organization: chats, embeddings, and rejected requests of the last 24 hours. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { endUserPair, splitEndUser } from '../domain/end-users.ts';
import { isId, timeOfId } from '../domain/ids.ts';
import type { DatabasePool } from '../platform/database.ts';
import {
  afterCursor,
  buildPage,
  listedTimes,
  recordConditions,
  toCursor,
  type RecordFilter,
} from '../platform/record-lists.ts';
import { rejectedKept, type RequestKind } from './rejected-requests.ts';

/** Statuses of a request. A canceled chat is one whose caller disconnected. */
export const requestStatuses = ['running', 'completed', 'failed', 'canceled', 'rejected'] as const;
type RequestStatus = (typeof requestStatuses)[number];

const requestRecord = z.object({
  id: z.string(),
  kind: z.enum(['chat', 'embedding', 'studio']),
  status: z.enum(requestStatuses),
  /** Path of the endpoint of a rejected request; null for an accepted one. */
  path: z.string().nullable(),
  model: z.string().nullable(),
  provider: z.string().nullable(),
  streamed: z.boolean().nullable(),
  inputTokens: z.number().nullable(),
  outputTokens: z.number().nullable(),
  firstTokenMs: z.number().nullable(),
  durationMs: z.number().nullable(),
  /** Charge minus refunds. */
  creditsMicro: z.number(),
  errorCode: z.string().nullable(),
  /** HTTP status of a rejected request; null for an accepted one. */
  errorStatus: z.number().nullable(),
  errorField: z.string().nullable(),
  keyId: z.string(),
  requestId: z.string().nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  createdAtMs: z.number(),
  createdAtMicros: z.number(),
});
export type RequestRecord = z.infer<typeof requestRecord>;

/** Filter of the list of requests. */
export interface RequestFilter extends RecordFilter {
  kind?: RequestKind | undefined;
  status?: RequestStatus | undefined;
  provider?: string | undefined;
}

interface RequestListing extends RequestFilter {
  cursor: string | undefined;
  limit: number;
}

const recordColumns = sql.fragment`id, kind, status, path, model, provider, streamed,
  input_tokens AS "inputTokens", output_tokens AS "outputTokens", first_token_ms AS "firstTokenMs",
  duration_ms AS "durationMs", net AS "creditsMicro", error_code AS "errorCode",
  error_status AS "errorStatus", error_field AS "errorField", key_id AS "keyId",
  request_id AS "requestId", metadata, ${listedTimes}`;

const chatKind = sql.fragment`CASE WHEN x.embedding THEN 'embedding' ELSE 'chat' END`;
const chatStatus = sql.fragment`CASE WHEN x.state = 'reserved' THEN 'running' WHEN x.reason = 'chat left' THEN 'canceled'
  WHEN x.reason IN ('chat failed', 'chat broken', 'CHAT_LOST') THEN 'failed' ELSE 'completed' END`;

/** Columns of chats and of rejected requests. Both have the same names. */
const columns = {
  chat: sql.fragment`x.id, x.created_at, ${chatKind} AS kind, ${chatStatus} AS status, NULL AS path,
      x.model, x.provider, x.streamed, x.input_tokens, x.output_tokens, x.first_token_ms,
      (extract(epoch FROM x.settled_at - x.created_at) * 1000)::bigint AS duration_ms,
      coalesce(x.charged, 0) - coalesce(x.refunded, 0) AS net, x.error_code, NULL::integer AS error_status,
      NULL AS error_field, x.key_id, x.request_id, x.metadata`,
  rejected: sql.fragment`x.id, x.created_at, x.kind, 'rejected' AS status, x.path, x.model, NULL AS provider,
      NULL::boolean AS streamed, NULL::bigint AS input_tokens, NULL::bigint AS output_tokens,
      NULL::integer AS first_token_ms, x.duration_ms::bigint, 0::bigint AS net, x.error_code,
      x.status AS error_status, x.field AS error_field, x.key_id, x.request_id,
      CASE WHEN x.end_user IS NOT NULL THEN jsonb_build_object(${endUserPair}::text, x.end_user) END AS metadata`,
};

const joinAll = (conditions: FragmentSqlToken[]) => sql.join(conditions, sql.fragment` AND `);
const newestFirst = sql.fragment`ORDER BY x.created_at DESC, x.id DESC`;

type Selection = RequestFilter & { bounds: FragmentSqlToken[] };

/** Selects all chats of the filters that have an index: times, key and metadata. */
const selectIndexed = (organizationId: string, selection: Selection): FragmentSqlToken =>
  sql.fragment`FROM reservation x WHERE ${joinAll([
    sql.fragment`x.kind = 'chat'`,
    ...recordConditions(organizationId, { ...selection, model: undefined }),
    ...selection.bounds,
  ])}`;

/** Returns the conditions on chats that no index serves. */
function listUnindexed({ kind, status, provider, model }: RequestFilter): FragmentSqlToken[] {
  const conditions: FragmentSqlToken[] = [];
  if (kind !== undefined) conditions.push(sql.fragment`${chatKind} = ${kind}`);
  if (status !== undefined) conditions.push(sql.fragment`${chatStatus} = ${status}`);
  if (provider !== undefined) conditions.push(sql.fragment`x.provider = ${provider}`);
  if (model !== undefined) conditions.push(sql.fragment`x.model = ${model}`);
  return conditions;
}

const includesChats = ({ kind, status }: RequestFilter): boolean =>
  kind !== 'studio' && status !== 'rejected';

/** Selects the filtered chats, among the newest `scannedMax` of the filters that have an index. */
function selectChats(organizationId: string, selection: Selection, scannedMax: number) {
  const indexed = selectIndexed(organizationId, selection);
  const unindexed = listUnindexed(selection);
  if (unindexed.length === 0) return sql.fragment`SELECT ${columns.chat} ${indexed}`;
  return sql.fragment`SELECT ${columns.chat} FROM (SELECT x.* ${indexed} ${newestFirst} LIMIT ${scannedMax}) AS x
    WHERE ${joinAll(unindexed)}`;
}

function selectRejected(organizationId: string, selection: Selection): FragmentSqlToken {
  const { kind, bounds, metadata, ...others } = selection;
  const { endUser } = splitEndUser(metadata ?? null);
  const own = [sql.fragment`x.created_at >= clock_timestamp() - ${rejectedKept}`];
  if (kind !== undefined) own.push(sql.fragment`x.kind = ${kind}`);
  if (endUser !== null) own.push(sql.fragment`x.end_user = ${endUser}`);
  return sql.fragment`SELECT ${columns.rejected} FROM rejected_request x
    WHERE ${joinAll([...own, ...recordConditions(organizationId, others), ...bounds])}`;
}

/** Builds the statements that select the filtered requests: of both tables, or of one, or none. */
function selectRequests(
  organizationId: string,
  selection: Selection,
  scannedMax: number,
): FragmentSqlToken[] {
  const { status = 'rejected', provider, metadata = null } = selection;
  // A rejected request has neither a provider nor metadata beside its end user.
  const { metadata: pairs } = splitEndUser(metadata);
  const hasNone = provider !== undefined || Object.keys(pairs).length > 0;
  return [
    ...(includesChats(selection) ? [selectChats(organizationId, selection, scannedMax)] : []),
    ...(status === 'rejected' && !hasNone ? [selectRejected(organizationId, selection)] : []),
  ];
}

/** Time from a request id to its chat at most, and differences of clocks, in milliseconds. */
const admissionMaxMs = { before: 60_000, after: 3_600_000 };

/** Chats have no index by request id, so that of their times finds those that began after the id was made. */
const selectByRequestId = (id: string) => ({
  bounds: [sql.fragment`x.request_id = ${id}`],
  afterMs: timeOfId(id) - admissionMaxMs.before,
  beforeMs: timeOfId(id) + admissionMaxMs.after,
});

/** Number of chats that a page with other filters than times, key and metadata reads at most. */
const scannedMaxDefault = 50_000;
const scanEnd = z.object({ id: z.string(), createdAtMs: z.number(), createdAtMicros: z.number() });

/** Creates the functions that read requests. */
export function createRequestReads(pool: DatabasePool, scannedMax = scannedMaxDefault) {
  /** Finds the oldest chat among those that a page reads; null if the page reads all chats. */
  async function findScanEnd(organizationId: string, selection: Selection) {
    if (!includesChats(selection) || listUnindexed(selection).length === 0) return null;
    return pool.maybeOne(sql.type(scanEnd)`SELECT x.id, ${listedTimes}
      ${selectIndexed(organizationId, selection)} ${newestFirst} OFFSET ${scannedMax - 1} LIMIT 1`);
  }
  return {
    /**
     * Reads a page, newest first. It has fewer than `limit` records, and a next page, if it reads `scannedMax` chats
     * without finding enough.
     * @throws GatewayError INVALID_REQUEST for an invalid cursor
     */
    async page(
      organizationId: string,
      { cursor, limit, ...filter }: RequestListing,
    ): Promise<{ records: RequestRecord[]; nextCursor: string | null }> {
      const selection = { ...filter, bounds: afterCursor(cursor, sql.fragment`x.id`) };
      const newest = selectRequests(organizationId, selection, scannedMax).map(
        (select) => sql.fragment`(${select} ${newestFirst} LIMIT ${limit + 1})`,
      );
      if (newest.length === 0) return { records: [], nextCursor: null };
      const rows = await pool.any(sql.type(requestRecord)`SELECT ${recordColumns}
        FROM (${sql.join(newest, sql.fragment` UNION ALL `)}) AS records
        ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`);
      const { page, nextCursor } = buildPage(rows, limit, ({ id }) => id);
      const end = nextCursor === null ? await findScanEnd(organizationId, selection) : null;
      if (!end) return { records: page, nextCursor };
      const isRead = ({ createdAtMicros, id }: RequestRecord): boolean =>
        createdAtMicros > end.createdAtMicros ||
        (createdAtMicros === end.createdAtMicros && id >= end.id);
      return { records: page.filter(isRead), nextCursor: toCursor(end.createdAtMicros, end.id) };
    },
    /**
     * Reads a request by its id, or by the request id that its response contains; null if the organization has
     * none.
     */
    async find(organizationId: string, id: string): Promise<RequestRecord | null> {
      const found = selectRequests(
        organizationId,
        isId('request', id) ? selectByRequestId(id) : { bounds: [sql.fragment`x.id = ${id}`] },
        scannedMax,
      );
      return pool.maybeOne(sql.type(requestRecord)`SELECT ${recordColumns}
        FROM (${sql.join(found, sql.fragment` UNION ALL `)}) AS found LIMIT 1`);
    },
  };
}
