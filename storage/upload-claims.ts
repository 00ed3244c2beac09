/**
 * Claims on uploads: across all processes, only one request at a time may send the file of an
 * upload.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';

/**
 * Claims the upload `id`, runs `receive`, and releases the claim. Returns the result of `receive`.
 * @throws GatewayError UPLOAD_IN_PROGRESS if another request is sending the file
 */
export type WithUploadClaim = <Result>(
  id: string,
  receive: () => Promise<Result>,
) => Promise<Result>;

/**
 * Lifetime of a claim that is not renewed, in milliseconds. After a crash, other requests are
 * rejected for this long.
 */
const claimTtlMs = 60_000;

/**
 * Creates the function that claims uploads. A claim is an expiry time in the upload's row, which is
 * renewed while the file is being received.
 */
export function createUploadClaims(pool: DatabasePool): WithUploadClaim {
  const newExpiry = sql.fragment`clock_timestamp() + ${claimTtlMs} * interval '1 millisecond'`;
  return async (id, receive) => {
    const { rowCount } = await pool.query(command`UPDATE upload SET receiving_until = ${newExpiry}
      WHERE id = ${id} AND completed_at IS NULL
        AND (receiving_until IS NULL OR receiving_until < clock_timestamp())`);
    if (rowCount === 0) {
      throw new GatewayError('UPLOAD_IN_PROGRESS', undefined, { retryAfterSeconds: 5 });
    }
    const setClaim = (expiry: FragmentSqlToken): void => {
      pool
        .query(command`UPDATE upload SET receiving_until = ${expiry} WHERE id = ${id}`)
        // Errors are ignored: a claim that could not be renewed or released expires.
        .catch(() => {});
    };
    const renewal = setInterval(setClaim, claimTtlMs / 3, newExpiry);
    try {
      return await receive();
    } finally {
      clearInterval(renewal);
      setClaim(sql.fragment`NULL`);
    }
  };
}
