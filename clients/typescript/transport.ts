/** Sends requests with a timeout, and retries them if a retry is safe. */
import { readError, StudioError } from './errors.ts';

/** Options of a client. */
export interface GatewayOptions {
  /** API key (`gk_live_…`). Web pages use `createBrowserClient`, because every visitor can read a key. */
  apiKey: string;
  /** URL of the gateway, with or without `/api/v1`. */
  baseUrl: string;
  /**
   * Timeout of each attempt in milliseconds; 60,000 by default. Within this time, an attempt must
   * receive the complete response, or the start of a streamed response.
   */
  timeoutMs?: number;
  /**
   * Maximum number of retries; 2 by default. A request is retried after failures that may be
   * temporary, such as no response or status 429 or 503, unless `Retry-After` exceeds 60 seconds.
   */
  retries?: number;
  /** Function to use instead of the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Request whose body can be sent again by a retry. */
export interface OutgoingRequest {
  url: string;
  method: string;
  headers?: Record<string, string>;
  body?: string | Blob | FormData;
  signal?: AbortSignal | null | undefined;
  timeoutMs?: number | undefined;
}

/**
 * Sends a request and returns its successful response. The body has been received, unless it is a
 * stream of events or lines.
 * @throws StudioError if the request fails; the signal's reason if it is aborted
 */
export type Send = (request: OutgoingRequest) => Promise<Response>;

/** Default of `timeoutMs`. */
export const defaultTimeoutMs = 60_000;
/** Maximum `Retry-After` in milliseconds. A request that must wait longer is not retried. */
const retryAfterMaxMs = 60_000;
const firstWaitMs = 500;

const streamType = /^(?:text\/event-stream|application\/x-ndjson)/;
/** HTTP statuses after which a retry may succeed. */
const retryableStatuses = new Set([408, 429, 502, 503, 504]);
const retryableCodes = new Set([
  'REQUEST_IN_PROGRESS',
  'UPLOAD_IN_PROGRESS',
  'Internal server error',
]);

/** Creates the function that sends requests with retries. */
export function createSend(options: Omit<GatewayOptions, 'apiKey' | 'baseUrl'>): Send {
  const { timeoutMs = defaultTimeoutMs, retries = 2 } = options;
  const fetch = options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init));

  async function attempt(request: OutgoingRequest): Promise<Response> {
    const { url, signal, timeoutMs: attemptTimeoutMs = timeoutMs, ...init } = request;
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), attemptTimeoutMs);
    try {
      const signals = signal ? [signal, timeout.signal] : [timeout.signal];
      const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) });
      if (!response.ok) throw await readErrorResponse(response);
      if (streamType.test(response.headers.get('content-type') ?? '')) return response;
      const body = await response.arrayBuffer();
      return new Response(body.byteLength > 0 ? body : null, response);
    } catch (error) {
      if (error instanceof ErrorResponse) throw error;
      signal?.throwIfAborted();
      if (timeout.signal.aborted) {
        const message = `No response within ${attemptTimeoutMs} ms.`;
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
    for (let retriesLeft = retries, waitMs = firstWaitMs; ; retriesLeft -= 1, waitMs *= 2) {
      try {
        return await attempt(request);
      } catch (failure) {
        const error = failure instanceof ErrorResponse ? failure.error : failure;
        const retryAfterMs = failure instanceof ErrorResponse ? failure.retryAfterMs : null;
        if (retriesLeft <= 0 || !isRetryable(error) || (retryAfterMs ?? 0) > retryAfterMaxMs) {
          throw error;
        }
        // The wait is random, so that many clients do not retry at the same time.
        await sleep(retryAfterMs ?? waitMs * (0.5 + Math.random()), request.signal);
      }
    }
  };
}

/** Error response with the value of its `Retry-After` header. */
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
 * Returns whether a retry may succeed. The error of a failed job is final, because a retry with the
 * same idempotency key returns the same job.
 */
function isRetryable(error: unknown): boolean {
  if (!(error instanceof StudioError) || error.jobId !== null) return false;
  return (
    error.status === null || retryableStatuses.has(error.status) || retryableCodes.has(error.code)
  );
}

/** Waits for `ms` milliseconds; rejects with the signal's reason if the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const handleAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', handleAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', handleAbort, { once: true });
  });
}
