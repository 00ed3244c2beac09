/** HTTP exchanges with providers: no redirects, no retries, an answer whose body is read by the adapter. */
import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { ProviderFailure } from './provider.ts';

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
export type Exchange = (wanted: ProviderRequest) => Promise<ProviderAnswer>;

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
      : new ProviderFailure('unknown', 'the provider broke off while the call was sent', { cause });
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
