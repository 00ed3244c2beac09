/**
 * HTTP exchanges with providers: no redirects, no retries; the adapter reads the body of the
 * response.
 */
import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { z } from 'zod';
import { ProviderFailure } from '../domain/provider-failure.ts';

/** A response whose body has not been read. */
export interface ProviderAnswer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: Readable;
}

/** A request; `url` is absolute, `json` is encoded, `body` is sent unchanged. */
export interface ProviderRequest {
  method?: 'GET' | 'POST' | 'PUT';
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  body?: string | Readable | FormData;
  signal: AbortSignal;
}

/**
 * Sends a request.
 * @throws the error of undici if there is no response
 */
type Exchange = (wanted: ProviderRequest) => Promise<ProviderAnswer>;

/**
 * Makes a connection pool; `timeouts` are milliseconds without data before and within a response,
 * 0: the caller's signal ends the wait.
 */
export function providerAgent(timeouts: { headersTimeout: number; bodyTimeout: number }): Agent {
  return new Agent({
    ...timeouts,
    connect: { timeout: 5000 },
    keepAliveTimeout: 30_000,
    connections: 256,
  });
}

/** Makes the exchange of a provider; `key` is the header that every request carries. */
export function createExchange(dispatcher: Dispatcher, key: Record<string, string>): Exchange {
  return async ({ method = 'POST', url, headers, json, body = null, signal }) => {
    const answer = await request(url, {
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
    return { status: answer.statusCode, headers: answer.headers, body: answer.body };
  };
}

/** Errors of a connection before any byte of the request was sent. */
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
 * Sends a call that is paid for.
 * @throws ProviderFailure if there is no response: only a failure before sending is certainly not
 * accepted
 */
export async function sendCall<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
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
 * Reads a JSON response within a limit; undefined if it is too long or not JSON.
 * @throws the connection's error if the response breaks off
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
 * Reads a `Retry-After` header, in seconds or as an HTTP date (RFC 9110 §10.2.3), as milliseconds;
 * undefined if it is absent or invalid. At most an hour.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const word = Array.isArray(header) ? header[0] : header;
  if (word === undefined) return undefined;
  const waitMs = /^\d+$/.test(word.trim()) ? Number(word) * 1000 : Date.parse(word) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}

const errorBytesMax = 64 * 1024;

/** Details of a provider's error in addition to the status. */
interface OwnWords {
  /** Input fields that the provider refused. */
  fields?: readonly string[];
  /** Delay for a busy provider that sends no `Retry-After`. */
  busyWaitMs?: number;
  /** True if the body is an error in the provider's own format, not a page of a proxy. */
  areOwn: boolean;
}

/** Makes the failure of a call with an error status. */
export function failureOfStatus(
  { status, headers }: Pick<ProviderAnswer, 'status' | 'headers'>,
  { fields = [], busyWaitMs, areOwn }: OwnWords,
): ProviderFailure {
  if ([400, 413, 415, 422].includes(status)) {
    const where = fields.length > 0 ? ` (${fields.join(', ')})` : '';
    return new ProviderFailure('rejected', `the provider did not accept the input${where}`);
  }
  const message = `the provider refused the call (${status})`;
  // Key, permission, quota or unknown model: refused before any work, and a retry fails again.
  if ([401, 402, 403, 404].includes(status)) return new ProviderFailure('refused', message);
  // Too many calls, or overloaded: refused before any work.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { retryAfterMs });
  }
  // The call has ended. The providers do not charge calls that they failed themselves.
  if (areOwn) return new ProviderFailure('failed', `the provider failed (${status})`);
  // An error page of a proxy: the provider may have accepted the call.
  return new ProviderFailure('unknown', `the provider answered the call with ${status}`);
}

/** Makes the failure of an input that violates the provider's content policy. */
export function againstPolicy(): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input is against the content policy');
}

/** Reads the body of an error if it is a short JSON document. */
export function readErrorBody({ body }: ProviderAnswer): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** FastAPI's list of the fields that it refuses in a body. */
const listed = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/** Reads types and field names of FastAPI's list; the provider's messages are left out. */
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
