/** One request to the service: authorized, limited in time, and sent again where that is safe. */
import { errorOfResponse, StudioError } from './errors.ts';

/** How a client is made. */
export interface GatewayOptions {
  /** `gk_live_…`. In a browser everybody can read it: give it little (scopes, a limit, an end). */
  apiKey: string;
  /** Where the service is, without `/api/v1`. */
  baseUrl: string;
  /** Milliseconds that one attempt may take until its answer is there; of a stream, until it begins. 60,000 by default. */
  timeoutMs?: number;
  /** How often a request is sent again after no answer, 429, 502, 503, 504 …; 2 by default. */
  retries?: number;
  /** Instead of the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** A request that can be sent several times. */
export interface Sent {
  url: string;
  method: string;
  headers?: Record<string, string>;
  body?: string | Blob | FormData;
  signal?: AbortSignal | null | undefined;
  timeoutMs?: number | undefined;
}

/**
 * Sends a request and returns its successful answer; all but streams of events are read to their end.
 * @throws StudioError; the signal's reason when it is aborted
 */
export type Send = (request: Sent) => Promise<Response>;

/** A longer wait is the caller's decision. */
const retryAfterMaxMs = 60_000;
const firstWaitMs = 500;

/** Answers after which the same request may well succeed. */
const passing = new Set([408, 429, 502, 503, 504]);
const passingCodes = new Set([
  'REQUEST_IN_PROGRESS',
  'UPLOAD_IN_PROGRESS',
  'Internal server error',
]);

/** Makes the function that sends requests with retries. */
export function createSend(options: Omit<GatewayOptions, 'apiKey' | 'baseUrl'>): Send {
  const { timeoutMs = 60_000, retries = 2 } = options;
  const fetch = options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init));

  async function attempt(request: Sent): Promise<Response> {
    const { url, signal, timeoutMs: ownTimeoutMs = timeoutMs, ...init } = request;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), ownTimeoutMs);
    try {
      const signals = signal ? [signal, late.signal] : [late.signal];
      const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) });
      if (!response.ok) throw await errorWithWait(response);
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
      if (isStream) return response;
      const body = await response.arrayBuffer();
      return new Response(body.byteLength > 0 ? body : null, response);
    } catch (error) {
      if (error instanceof Refused) throw error;
      signal?.throwIfAborted();
      if (late.signal.aborted) {
        const message = `No answer within ${ownTimeoutMs} ms.`;
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
        const error = thrown instanceof Refused ? thrown.error : thrown;
        const toldMs = thrown instanceof Refused ? thrown.retryAfterMs : null;
        if (left <= 0 || !mayPass(error) || (toldMs ?? 0) > retryAfterMaxMs) throw error;
        // Not all who were turned away at once come back at once.
        await sleep(toldMs ?? waitMs * (0.5 + Math.random()), request.signal);
      }
    }
  };
}

/** An answer that is no success, and when to ask again. */
class Refused extends Error {
  readonly error: StudioError;
  readonly retryAfterMs: number | null;

  constructor(error: StudioError, retryAfterMs: number | null) {
    super(error.message);
    this.error = error;
    this.retryAfterMs = retryAfterMs;
  }
}

async function errorWithWait(response: Response): Promise<Refused> {
  const seconds = Number(response.headers.get('retry-after') ?? 'NaN');
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null;
  return new Refused(await errorOfResponse(response), retryAfterMs);
}

/** Whether the same request may succeed later. A failed job does not: its key stands for that job. */
function mayPass(error: unknown): boolean {
  if (!(error instanceof StudioError) || error.jobId !== null) return false;
  return error.status === null || passing.has(error.status) || passingCodes.has(error.code);
}

/** Waits; rejects with the signal's reason when it is aborted. */
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
