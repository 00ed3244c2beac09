/** Errors that mean that the database is unreachable, or a lock is not available. */
import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  ConnectionError,
  StatementTimeoutError,
} from 'slonik';

/**
 * Error of a query to which the database did not respond in time, or that would wait behind too
 * many others.
 */
export class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** Messages of the driver, which have no code, about a broken or closed connection. */
const lostConnection =
  /Query read timeout|Connection terminated|timeout expired|timeout exceeded when trying to connect/i;

/** SQLSTATE of a lock that was not available within `lock_timeout`. */
const lockNotAvailable = '55P03';

/** Checks whether an error is a lock timeout. */
export function isLockTimeout(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === lockNotAvailable) return true;
  }
  return false;
}

/** Returns whether an error means that the database is unreachable, so that a retry may succeed. */
export function isDatabaseAway(error: unknown): boolean {
  if (isLockTimeout(error)) return true;
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  // Class 57P: shutting down or starting; 53: out of connections, memory or disk; 08: connection
  // errors.
  return (
    /^(57P|53|08|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code) ||
    lostConnection.test(error.message)
  );
}
