/** Requests to the service: limited in time, and retried when that is safe. */
import { readError, StudioError } from './errors.ts';

/** Options of a client. */
export interface GatewayOptions {
  /**
   * API key (`gk_live_…`). Visitors of a web page can read it, so restrict it: scopes, a limit, an
   * expiry.
   */
  apiKey: string;
  /** URL of the service, with or without `/api/v1`. */
  baseUrl: string;
  /**
   * Milliseconds until an attempt must have its response, and a stream its first byte; 60,000 by
   * default.
   */
  timeoutMs?: number;
  /** Number of retries after no response or the status 408, 429, 502, 503 or 504; 2 by default. */
  retries?: number;
  /** Replacement of the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Request that can be sent several times. */
export interface Sent {
  url: string;
  method: string;
  headers?: Record<string, string>;
  body?: string | Blob | FormData;
  signal?: AbortSignal | null | undefined;
  timeoutMs?: number | undefined;
}

/**
 * Sends a request and returns its successful response. The body has arrived, unless it is a stream
 * of events.
 * @throws StudioError; the signal's reason if it is aborted
 */
export type Send = (request: Sent) => Promise<Response>;

/** Default of `timeoutMs`. */
export const attemptTimeoutMs = 60_000;
/** Longest Retry-After after which a request is retried, in milliseconds. */
const retryAfterMaxMs = 60_000;
const firstWaitMs = 500;

/** Statuses after which a retry can succeed. */
const retryableStatuses = new Set([408, 429, 502, 503, 504]);
const retryableCodes = new Set([
  'REQUEST_IN_PROGRESS',
  'UPLOAD_IN_PROGRESS',
  'Internal server error',
]);

/** Makes the function that sends requests with retries. */
export function createSend(options: Omit<GatewayOptions, 'apiKey' | 'baseUrl'>): Send {
  const { timeoutMs = attemptTimeoutMs, retries = 2 } = options;
  const fetch = options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init));

  async function attempt(request: Sent): Promise<Response> {
    const { url, signal, timeoutMs: ownTimeoutMs = timeoutMs, ...init } = request;
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), ownTimeoutMs);
    try {
      const signals = signal ? [signal, timeout.signal] : [timeout.signal];
      const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) });
      if (!response.ok) throw await readErrorResponse(response);
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
      if (isStream) return response;
      const body = await response.arrayBuffer();
      return new Response(body.byteLength > 0 ? body : null, response);
    } catch (error) {
      if (error instanceof ErrorResponse) throw error;
      signal?.throwIfAborted();
      if (timeout.signal.aborted) {
        const message = `No response within ${ownTimeoutMs} ms.`;
        throw new StudioError('TIMEOUT', message, { cause: error });
      }
      throw new StudioError('CONNECTION_FAILED', `${new URL(url).origin} cannot be reached.`, {
        cause: error,
      });
    } finally {
      clearTimeout(timer);
    }
  }

  return async (request) => {
    for (let left = retries, waitMs = firstWaitMs; ; left -= 1, waitMs *= 2) {
      try {
        return await attempt(request);
      } catch (thrown) {
        const error = thrown instanceof ErrorResponse ? thrown.error : thrown;
        const retryAfterMs = thrown instanceof ErrorResponse ? thrown.retryAfterMs : null;
        if (left <= 0 || !isRetryable(error) || (retryAfterMs ?? 0) > retryAfterMaxMs) throw error;
        // The wait is random, so that many rejected clients do not return at the same time.
        await sleep(retryAfterMs ?? waitMs * (0.5 + Math.random()), request.signal);
      }
    }
  };
}

/** Error response, with its Retry-After. */
class ErrorResponse extends Error {
  readonly error: StudioError;
  readonly retryAfterMs: number | null;

  constructor(error: StudioError, retryAfterMs: number | null) {
    super(error.message);
    this.error = error;
    this.retryAfterMs = retryAfterMs;
  }
}

async function readErrorResponse(response: Response): Promise<ErrorResponse> {
  const seconds = Number(response.headers.get('retry-after') ?? 'NaN');
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null;
  return new ErrorResponse(await readError(response), retryAfterMs);
}

/**
 * Returns whether a retry can succeed. After a failed job it cannot, because the idempotency key
 * belongs to that job.
 */
function isRetryable(error: unknown): boolean {
  if (!(error instanceof StudioError) || error.jobId !== null) return false;
  return (
    error.status === null || retryableStatuses.has(error.status) || retryableCodes.has(error.code)
  );
}

/** Waits; rejects with the signal's reason if it is aborted. */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
