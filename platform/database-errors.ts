/** Recognizes errors which mean that the database is unreachable or a lock is unavailable. */
import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  ConnectionError,
  StatementTimeoutError,
} from 'slonik';

/**
 * Query to which the database did not respond in time, or which was rejected because too many
 * others were waiting.
 */
export class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** Messages of driver errors about a broken or closed connection that have no error code. */
const lostConnection =
  /Query read timeout|Connection terminated|timeout expired|timeout exceeded when trying to connect/i;

/** SQLSTATE of a lock that was not available within `lock_timeout`. */
const lockNotAvailable = '55P03';

/** Returns whether an error, or one of its causes, is a lock timeout. */
export function isLockTimeout(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === lockNotAvailable) return true;
  }
  return false;
}

/** Returns whether an error means that the database is unreachable, so that a retry may succeed. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (isLockTimeout(error)) return true;
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  // SQLSTATE classes. 57P: shutting down or starting; 53: out of connections, memory or disk; 08:
  // connection errors.
  return (
    /^(57P|53|08|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code) ||
    lostConnection.test(error.message)
  );
}
