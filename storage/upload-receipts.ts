/** Receipts of uploads: one request at a time may send the file of an upload, in all processes. */
import { sql, type FragmentSqlToken } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';

/**
 * Holds the upload `id` while `receive` runs.
 * @throws GatewayError UPLOAD_IN_PROGRESS
 */
export type WhileReceiving = <Result>(
  id: string,
  receive: () => Promise<Result>,
) => Promise<Result>;

/** Time after which the claim of a dead sender expires. */
const receiptTtlMs = 60_000;

/** Makes the receipts: a claim in the row of an upload, renewed while the file arrives. */
export function createReceipts(pool: DatabasePool): WhileReceiving {
  const until = sql.fragment`clock_timestamp() + ${receiptTtlMs} * interval '1 millisecond'`;
  return async (id, receive) => {
    const { rowCount } = await pool.query(command`UPDATE upload SET receiving_until = ${until}
      WHERE id = ${id} AND completed_at IS NULL
        AND (receiving_until IS NULL OR receiving_until < clock_timestamp())`);
    if (rowCount === 0) {
      throw new GatewayError('UPLOAD_IN_PROGRESS', undefined, { retryAfterSeconds: 5 });
    }
    const set = (time: FragmentSqlToken): void => {
      pool
        .query(command`UPDATE upload SET receiving_until = ${time} WHERE id = ${id}`)
        // A claim that is not renewed or released expires.
        .catch(() => {});
    };
    const renewal = setInterval(set, receiptTtlMs / 3, until);
    try {
      return await receive();
    } finally {
      clearInterval(renewal);
      set(sql.fragment`NULL`);
    }
  };
}
