/** Recognizes errors that mean that the database cannot execute a statement now. */
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

/**
 * SQLSTATE classes and codes of errors after which a retry may succeed: 08 connection failed, 28
 * credentials rejected and 3D000 no database (both while connecting), 25006 read-only server, 25P03
 * and 25P04 session or transaction timeout, 40001 and 40P01 conflict with another transaction, 53
 * no connections, memory or disk left, 55P03 lock not available, 57P shutdown or start, 58 error of
 * the operating system. The others are errors of the network.
 */
const temporaryCodes =
  /^(08|28|3D000|25006|25P0[34]|40001|40P01|53|55P03|57P|58|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_AGAIN)/;

/** Returns whether an error, or one of its causes, has a code that matches the pattern. */
function hasCode(error: unknown, pattern: RegExp): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && pattern.test(String(cause.code))) return true;
  }
  return false;
}

/** Returns whether an error, or one of its causes, is a lock timeout. */
export const isLockTimeout = (error: unknown): boolean => hasCode(error, /^55P03$/);

/** Returns whether the server refused a statement because it or the session is read-only. */
export const isReadOnlyError = (error: unknown): boolean => hasCode(error, /^25006$/);

/**
 * Returns whether an error is a conflict with another transaction, which does not occur if the
 * operations of a batch run separately.
 */
export const isConflict = (error: unknown): boolean => hasCode(error, /^(40001|40P01)$/);

/** Returns whether an error means that the database is unavailable, so that a retry may succeed. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof BackendTerminatedUnexpectedlyError) return true;
  if (error instanceof StatementTimeoutError || error instanceof DatabaseSilentError) return true;
  if (!(error instanceof Error)) return false;
  return hasCode(error, temporaryCodes) || lostConnection.test(error.message);
}
