/** Lists of records in SQL: what narrows them, and pages of those that are ordered by time, then by id. */
import { sql, type FragmentSqlToken } from 'slonik';
import { fieldError } from '../domain/errors.ts';

/** Which rows; what is absent narrows nothing. */
export interface RecordFilter {
  keyId?: string | undefined;
  model?: string | undefined;
  /** Only rows made strictly later, and strictly before, Unix ms. */
  afterMs?: number | undefined;
  beforeMs?: number | undefined;
  /** Only rows with all these pairs. */
  metadata?: Record<string, string> | undefined;
}

/** Conditions on the rows `x` of an organization. */
export function recordConditions(organizationId: string, filter: RecordFilter): FragmentSqlToken[] {
  const { keyId, model, afterMs, beforeMs, metadata = {} } = filter;
  const found = [sql.fragment`x.organization_id = ${organizationId}`];
  if (keyId !== undefined) found.push(sql.fragment`x.key_id = ${keyId}`);
  if (model !== undefined) found.push(sql.fragment`x.model = ${model}`);
  if (afterMs !== undefined) {
    // Milliseconds are shown: the next one shown is the first that is later.
    found.push(sql.fragment`x.created_at >= timestamp_of_ms(${afterMs + 1}::bigint)`);
  }
  if (beforeMs !== undefined) {
    found.push(sql.fragment`x.created_at < timestamp_of_ms(${beforeMs}::bigint)`);
  }
  // The index of `tag` finds a tag's rows in the order of time, and whether a row has a tag: Postgres takes
  // whichever is less.
  for (const [name, value] of Object.entries(metadata)) {
    found.push(sql.fragment`EXISTS (SELECT FROM tag t
      WHERE t.organization_id = ${organizationId} AND t.name = ${name} AND t.value = ${value}
        AND t.created_at = x.created_at AND t.id = x.id)`);
  }
  return found;
}

const cursorForm = /^(\d{1,16})\.([\w./-]{1,150})$/;

/** The times of a row that is listed so: to be shown, and to go on from. */
export const listedTimes = sql.fragment`floor(extract(epoch FROM created_at) * 1000) AS "createdAtMs",
  (extract(epoch FROM created_at) * 1000000)::bigint AS "createdAtMicros"`;

/**
 * Conditions on the rows `x` behind a cursor; none without one.
 * @throws GatewayError INVALID_REQUEST for what no page gave
 */
export function behind(cursor: string | undefined, id: FragmentSqlToken): FragmentSqlToken[] {
  if (cursor === undefined) return [];
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const [, micros, last] = cursorForm.exec(text) ?? [];
  if (micros === undefined || last === undefined) {
    throw fieldError('INVALID_REQUEST', 'cursor', 'is not a cursor of this list');
  }
  return [
    sql.fragment`(x.created_at, ${id}) <
      (timestamptz 'epoch' + ${micros}::bigint * interval '1 microsecond', ${last})`,
  ];
}

/** At most `limit` of the rows that were read, one more than that, and the cursor of the next page. */
export function timePage<Row extends { createdAtMicros: number }>(
  rows: readonly Row[],
  limit: number,
  idOf: (row: Row) => string,
): { page: Row[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  if (!last || rows.length <= limit) return { page, nextCursor: null };
  const cursor = Buffer.from(`${last.createdAtMicros}.${idOf(last)}`).toString('base64url');
  return { page, nextCursor: cursor };
}
