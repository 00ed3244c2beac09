/** Pages of a list that is ordered by time, then by id; where the next goes on is opaque to callers. */
import { sql, type FragmentSqlToken } from 'slonik';
import { fieldError } from '../../domain/errors.ts';

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
