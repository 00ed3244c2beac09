/** HTTP exchanges with providers: no redirects, no retries, an answer whose body is read by the adapter. */
import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { z } from 'zod';
import { ProviderFailure } from '../domain/provider-failure.ts';

/** An answer whose body has not been read. */
export interface ProviderAnswer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: Readable;
}

/** A request; `url` is absolute, `json` is sent as such, `body` as it is. */
export interface ProviderRequest {
  method?: 'GET' | 'POST' | 'PUT';
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  body?: string | Readable | FormData;
  signal: AbortSignal;
}

/** Sends a request. @throws what undici throws when there is no answer */
type Exchange = (wanted: ProviderRequest) => Promise<ProviderAnswer>;

/** A connection pool; milliseconds of silence before and within an answer, 0: the caller's signal ends the wait. */
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

/** Errors of the connection that come before any byte of the request has left. */
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
 * @throws ProviderFailure when there is no answer: only what failed before sending is certainly not accepted
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
 * Reads a JSON answer within a limit; undefined when it is too long or not JSON.
 * @throws what the connection throws when it breaks off
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
 * Milliseconds of a `Retry-After` header: seconds or an HTTP date (RFC 9110 §10.2.3); undefined when
 * the header is absent or makes no sense. Never more than an hour.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const word = Array.isArray(header) ? header[0] : header;
  if (word === undefined) return undefined;
  const waitMs = /^\d+$/.test(word.trim()) ? Number(word) * 1000 : Date.parse(word) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}

const errorBytesMax = 64 * 1024;

/** What a provider's own words say beside the status. */
interface OwnWords {
  /** Of the input, those that were refused. */
  fields?: readonly string[];
  /** How long to stay away from a busy provider that does not say so itself. */
  busyWaitMs?: number;
  /** The words are an error of the provider's own kind, not a page of something in between. */
  areOwn: boolean;
}

/** A call that was answered with an error status. */
export function failureOfStatus(
  { status, headers }: Pick<ProviderAnswer, 'status' | 'headers'>,
  { fields = [], busyWaitMs, areOwn }: OwnWords,
): ProviderFailure {
  if ([400, 413, 415, 422].includes(status)) {
    const where = fields.length > 0 ? ` (${fields.join(', ')})` : '';
    return new ProviderFailure('rejected', `the provider did not accept the input${where}`);
  }
  const message = `the provider refused the call (${status})`;
  // Key, permission, quota, unknown model: before any work, and asking again changes nothing.
  if ([401, 402, 403, 404].includes(status)) return new ProviderFailure('refused', message);
  // Too many calls, overloaded: before any work.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { retryAfterMs });
  }
  // The call has ended, nothing follows, and no provider of ours charges what it failed itself.
  if (areOwn) return new ProviderFailure('failed', `the provider failed (${status})`);
  // An error page of something in between: the provider may have the call all the same.
  return new ProviderFailure('unknown', `the provider answered the call with ${status}`);
}

/** The input is against the provider's content policy. */
export function againstPolicy(): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input is against the content policy');
}

/** The body of an error, if it is a short JSON document. */
export function readErrorBody({ body }: ProviderAnswer): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** FastAPI's list of what it refuses in a body. */
const listed = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/** Types and fields of FastAPI's list: their names are ours to show, the provider's words are not. */
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
