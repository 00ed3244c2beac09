/** Recognizes errors that mean that the database is unreachable or that a lock is unavailable. */
import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  ConnectionError,
  StatementTimeoutError,
} from 'slonik';

/**
 * Error of a query to which the database did not respond in time, or that was not sent because too
 * many other queries were waiting.
 */
export class DatabaseSilentError extends Error {
  override readonly name = 'DatabaseSilentError';
}

/** Pattern of the driver's messages about a lost connection. These errors have no error code. */
const lostConnection =
  /Query read timeout|Connection terminated|timeout expired|timeout exceeded when trying to connect/i;

/** SQLSTATE code for a lock that was not available within `lock_timeout`. */
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
  // SQLSTATE classes: 57P means that the server is shutting down or starting; 53 that it has no
  // more connections, memory or disk; 08 that the connection failed.
  return (
    /^(57P|53|08|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code) ||
    lostConnection.test(error.message)
  );
}
