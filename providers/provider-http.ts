/**
 * HTTP requests to providers, without redirects and retries. The adapter reads the body of the
 * response.
 */
import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { z } from 'zod';
import { ProviderFailure } from '../domain/provider-failure.ts';

/** Response whose body has not been read. */
export interface ProviderAnswer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: Readable;
}

/** Request; `url` is absolute, `json` is sent as JSON, `body` is sent unchanged. */
export interface ProviderRequest {
  method?: 'GET' | 'POST' | 'PUT';
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  body?: string | Readable | FormData;
  signal: AbortSignal;
}

/** Sends a request. @throws the error of undici if there is no response */
type Exchange = (providerRequest: ProviderRequest) => Promise<ProviderAnswer>;

/**
 * Makes a connection pool. `headersTimeout` is the longest wait for the headers of a response,
 * `bodyTimeout` the longest time between two parts of its body, both in milliseconds. If 0, only
 * the caller's signal limits the wait.
 */
export function providerAgent(timeouts: { headersTimeout: number; bodyTimeout: number }): Agent {
  return new Agent({
    ...timeouts,
    connect: { timeout: 5000 },
    keepAliveTimeout: 30_000,
    connections: 256,
  });
}

/**
 * Makes the function that sends requests to a provider; every request contains the header `key`.
 */
export function createExchange(dispatcher: Dispatcher, key: Record<string, string>): Exchange {
  return async ({ method = 'POST', url, headers, json, body = null, signal }) => {
    const response = await request(url, {
      method,
      dispatcher,
      signal,
      headers: {
        ...key,
        'accept-encoding': 'identity',
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: json === undefined ? body : JSON.stringify(json),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body };
  };
}

/** Codes of connection errors that occur before any byte of the request is sent. */
const beforeSending = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * Waits for the response to a paid call.
 * @throws ProviderFailure if there is no response: `not_accepted` if the call failed before any
 * byte was sent, otherwise `unknown`
 */
export async function sendCall<Result>(response: Promise<Result>): Promise<Result> {
  try {
    return await response;
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    throw beforeSending.has(code)
      ? new ProviderFailure('not_accepted', `the provider cannot be reached (${code})`, { cause })
      : new ProviderFailure(
          'unknown',
          'the connection to the provider was lost while the call was sent',
          { cause },
        );
  }
}

/**
 * Reads a JSON body of at most `bytesMax` bytes; undefined if it is longer or not JSON.
 * @throws the error of the connection if it is lost
 */
export async function readJson(body: Readable, bytesMax: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  const source: AsyncIterable<Buffer> = body;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Returns the milliseconds of a `Retry-After` header, which contains seconds or an HTTP date (RFC
 * 9110 §10.2.3); at most an hour. Undefined if the header is absent or invalid.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) return undefined;
  const waitMs = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}

/** Response headers in which providers send their id of a request. */
const requestIdHeaders = ['x-fal-request-id', 'x-request-id', 'request-id'] as const;

/** Returns the provider's id of a request; null if the response has none. */
export function requestIdOf(headers: ProviderAnswer['headers']): string | null {
  for (const name of requestIdHeaders) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') return value.slice(0, 200);
  }
  return null;
}

const errorBytesMax = 64 * 1024;

/** Properties of an error response in addition to its status. */
interface ErrorDetails {
  /** Names of the input fields that the provider rejected. */
  fields?: readonly string[];
  /**
   * Wait before the next attempt in milliseconds, if the provider is busy and sends no
   * `Retry-After`.
   */
  busyWaitMs?: number;
  /**
   * True if the body is an error document of the provider, not an error page of a proxy in between.
   */
  isOwnError: boolean;
}

/** Returns the failure of a call whose response has an error status. */
export function failureOfStatus(
  { status, headers }: Pick<ProviderAnswer, 'status' | 'headers'>,
  { fields = [], busyWaitMs, isOwnError }: ErrorDetails,
): ProviderFailure {
  const providerRequestId = requestIdOf(headers);
  if ([400, 413, 415, 422].includes(status)) {
    const suffix = fields.length > 0 ? ` (${fields.join(', ')})` : '';
    const message = `the provider did not accept the input${suffix}`;
    return new ProviderFailure('rejected', message, { providerRequestId });
  }
  const message = `the provider refused the call (${status})`;
  // Invalid key, missing permission, exceeded quota or unknown model: the provider did no work, and
  // a retry does not help.
  if ([401, 402, 403, 404].includes(status)) {
    return new ProviderFailure('refused', message, { providerRequestId });
  }
  // Too many calls or overload: the provider did no work, and a retry may succeed.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { retryAfterMs, providerRequestId });
  }
  // The call has ended at the provider, and no configured provider charges a call that it failed
  // itself.
  if (isOwnError) {
    return new ProviderFailure('failed', `the provider failed (${status})`, { providerRequestId });
  }
  // An error page of a proxy in between: the provider may have accepted the call.
  const unclear = `the provider responded to the call with status ${status}`;
  return new ProviderFailure('unknown', unclear, { providerRequestId });
}

/** Makes the failure of an input that violates the provider's content policy. */
export function againstPolicy({ headers }: Pick<ProviderAnswer, 'headers'>): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input is against the content policy', {
    providerRequestId: requestIdOf(headers),
  });
}

/**
 * Reads the body of an error response; undefined if it is not JSON, is longer than 64 KiB or cannot
 * be read.
 */
export function readErrorBody({ body }: ProviderAnswer): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** Schema of FastAPI's list of invalid fields of a body. */
const listed = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/**
 * Returns the error types and field names of FastAPI's list of invalid fields. The provider's own
 * texts are left out, because they must not be shown to callers.
 */
export function refusedFields(body: unknown): {
  isListed: boolean;
  types: string[];
  fields: string[];
} {
  const { data, success: isListed } = listed.safeParse(body);
  const entries = data?.detail ?? [];
  const fields = entries.map(({ loc }) => loc?.at(-1)).filter((name) => typeof name === 'string');
  return { isListed, types: entries.map(({ type }) => type ?? ''), fields };
}
