/** Builds the SQL for lists of records: filters, and pages ordered by time and id. */
import { sql, type FragmentSqlToken } from 'slonik';
import { fieldError } from '../domain/errors.ts';

/** Filter of a list. Missing fields do not restrict the list. */
export interface RecordFilter {
  keyId?: string | undefined;
  model?: string | undefined;
  /**
   * Period of the creation time, in Unix milliseconds: from `afterMs` on, until before `beforeMs`.
   * Successive periods neither overlap nor leave anything out.
   */
  afterMs?: number | undefined;
  beforeMs?: number | undefined;
  /** Metadata pairs. Only rows that have all of them are listed. */
  metadata?: Record<string, string> | undefined;
}

/** Builds the conditions that select the rows `x` of an organization, or of all if it is null. */
export function recordConditions(
  organizationId: string | null,
  filter: RecordFilter,
): FragmentSqlToken[] {
  const { keyId, model, afterMs, beforeMs, metadata = {} } = filter;
  const conditions =
    organizationId === null
      ? [sql.fragment`true`]
      : [sql.fragment`x.organization_id = ${organizationId}`];
  if (keyId !== undefined) conditions.push(sql.fragment`x.key_id = ${keyId}`);
  if (model !== undefined) conditions.push(sql.fragment`x.model = ${model}`);
  if (afterMs !== undefined) {
    conditions.push(sql.fragment`x.created_at >= timestamp_of_ms(${afterMs}::bigint)`);
  }
  if (beforeMs !== undefined) {
    conditions.push(sql.fragment`x.created_at < timestamp_of_ms(${beforeMs}::bigint)`);
  }
  // Postgres chooses between the time-ordered index of `metadata_pair` and the index of the listed rows.
  for (const [name, value] of Object.entries(metadata)) {
    conditions.push(sql.fragment`EXISTS (SELECT FROM metadata_pair t
      WHERE t.organization_id = x.organization_id AND t.name = ${name} AND t.value = ${value}
        AND t.created_at = x.created_at AND t.id = x.id)`);
  }
  return conditions;
}

const cursorPattern = /^(\d{1,16})\.([\w./-]{1,150})$/;

/**
 * Columns with the creation time of a listed row, in milliseconds for the response and in
 * microseconds for the cursor.
 */
export const listedTimes = sql.fragment`floor(extract(epoch FROM created_at) * 1000) AS "createdAtMs",
  (extract(epoch FROM created_at) * 1000000)::bigint AS "createdAtMicros"`;

/**
 * Builds the conditions that select the rows `x` after a cursor. Returns no conditions if there is
 * no cursor.
 * @throws GatewayError INVALID_REQUEST if the cursor does not have the format of a cursor
 */
export function afterCursor(cursor: string | undefined, id: FragmentSqlToken): FragmentSqlToken[] {
  if (cursor === undefined) return [];
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const [, micros, last] = cursorPattern.exec(text) ?? [];
  if (micros === undefined || last === undefined) {
    throw fieldError('INVALID_REQUEST', 'cursor', 'is not a cursor of this list');
  }
  return [
    sql.fragment`(x.created_at, ${id}) <
      (timestamptz 'epoch' + ${micros}::bigint * interval '1 microsecond', ${last})`,
  ];
}

/**
 * Builds a page of at most `limit` rows, and the cursor of the next page. `rows` must have been
 * read with a limit of `limit + 1`. The cursor is null on the last page.
 */
export function buildPage<Row extends { createdAtMicros: number }>(
  rows: readonly Row[],
  limit: number,
  idOf: (row: Row) => string,
): { page: Row[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  if (!last || rows.length <= limit) return { page, nextCursor: null };
  return { page, nextCursor: toCursor(last.createdAtMicros, idOf(last)) };
}

/** Returns the cursor of the page that follows a row. */
export const toCursor = (createdAtMicros: number, id: string): string =>
  Buffer.from(`${createdAtMicros}.${id}`).toString('base64url');
