/**
 * Connections of outgoing requests, and the errors that occur before the first byte of a request is
 * sent. The place of an error decides, not its code: a reset is such an error while TLS is being
 * negotiated, but not afterwards.
 */
import { buildConnector } from 'undici';

/** Time limit of a connection with its TLS handshake, in milliseconds. */
const connectTimeoutMs = 5000;

/** Errors of connectors. Requests that wait for the connection fail with the same object. */
const connectErrors = new WeakSet<Error>();

/** Codes of undici's errors for a URL, a header or another argument, which it rejects unsent. */
const argumentCodes = new Set(['UND_ERR_INVALID_ARG', 'ERR_INVALID_URL', 'ERR_INVALID_ARG_TYPE']);

/** Creates the connector of an undici agent or pool. A request that fails with its error is unsent. */
export function createConnector(): buildConnector.connector {
  const connect = buildConnector({ timeout: connectTimeoutMs });
  return (target, callback) =>
    connect(target, (...result) => {
      if (result[0]) connectErrors.add(result[0]);
      callback(...result);
    });
}

/**
 * Returns the code of an error that occurred before the first byte of the request was sent, so that
 * the other server certainly did not accept it. Returns null for any other error.
 */
export function findUnsentCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error ? String(error.code) : 'NOT_CONNECTED';
  return connectErrors.has(error) || argumentCodes.has(code) ? code : null;
}
