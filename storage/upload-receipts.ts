/**
 * Claims on uploads: only one request at a time sends the file of an upload, across all processes.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';

/**
 * Claims the upload `id` while `receive` runs, and returns the result of `receive`.
 * @throws GatewayError UPLOAD_IN_PROGRESS if another request sends the file
 */
export type WhileReceiving = <Result>(
  id: string,
  receive: () => Promise<Result>,
) => Promise<Result>;

/**
 * Lifetime of a claim that is not renewed, in milliseconds: after a crash, other requests are
 * rejected for this long.
 */
const receiptTtlMs = 60_000;

/**
 * Makes the claims on uploads: a time in the row of the upload, renewed while the file is received.
 */
export function createReceipts(pool: DatabasePool): WhileReceiving {
  const until = sql.fragment`clock_timestamp() + ${receiptTtlMs} * interval '1 millisecond'`;
  return async (id, receive) => {
    const { rowCount } = await pool.query(command`UPDATE upload SET receiving_until = ${until}
      WHERE id = ${id} AND completed_at IS NULL
        AND (receiving_until IS NULL OR receiving_until < clock_timestamp())`);
    if (rowCount === 0) {
      throw new GatewayError('UPLOAD_IN_PROGRESS', undefined, { retryAfterSeconds: 5 });
    }
    const setClaim = (time: FragmentSqlToken): void => {
      pool
        .query(command`UPDATE upload SET receiving_until = ${time} WHERE id = ${id}`)
        // The error is ignored, because a claim that is not renewed or not released expires.
        .catch(() => {});
    };
    const renewal = setInterval(setClaim, receiptTtlMs / 3, until);
    try {
      return await receive();
    } finally {
      clearInterval(renewal);
      setClaim(sql.fragment`NULL`);
    }
  };
}
