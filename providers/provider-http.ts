/** Sends HTTP requests to providers. Does not follow redirects and does not retry. */
import type { Readable } from 'node:stream';
import { request, type Dispatcher, type FormData } from 'undici';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { createAgent, findUnsentCode } from '../platform/connector.ts';

/** Response of a provider. The adapter reads its body. */
export interface ProviderResponse {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: Readable;
}

/** Request to a provider; `url` is absolute, `json` is sent as JSON, `body` unchanged. */
export interface ProviderRequest {
  method?: 'GET' | 'POST' | 'PUT';
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  body?: string | Readable | FormData;
  signal: AbortSignal;
}

/** Function that sends a provider request. @throws an error of undici if there is no response */
type Exchange = (providerRequest: ProviderRequest) => Promise<ProviderResponse>;

/**
 * Creates a connection pool. `headersTimeout` limits the wait for the headers of a response;
 * `bodyTimeout` limits the time between two parts of its body. Both are in milliseconds. A value of
 * 0 means no limit other than the signal of the request.
 */
export function createProviderAgent(timeouts: {
  headersTimeout: number;
  bodyTimeout: number;
}): Dispatcher {
  return createAgent({ ...timeouts, keepAliveTimeout: 30_000, connections: 256 });
}

/**
 * Creates the function that sends requests to a provider. Every request contains the given
 * authentication header.
 */
export function createExchange(
  dispatcher: Dispatcher,
  authentication: Record<string, string>,
): Exchange {
  return async ({ method = 'POST', url, headers, json, body = null, signal }) => {
    const response = await request(url, {
      method,
      dispatcher,
      signal,
      headers: {
        ...authentication,
        'accept-encoding': 'identity',
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: json === undefined ? body : JSON.stringify(json),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body };
  };
}

/**
 * Waits for the response to a paid call.
 * @throws ProviderFailure if there is no response: `not_accepted` if the connection failed before
 * the first byte was sent, otherwise `unknown`
 */
export async function sendCall<Result>(response: Promise<Result>): Promise<Result> {
  try {
    return await response;
  } catch (cause) {
    const unsentCode = findUnsentCode(cause);
    throw unsentCode !== null
      ? new ProviderFailure('not_accepted', `the call could not be sent (${unsentCode})`, { cause })
      : new ProviderFailure(
          'unknown',
          'the connection to the provider was lost while the call was sent',
          { cause },
        );
  }
}

/**
 * Reads a JSON body. Returns undefined if the body is longer than `bytesMax` or is not JSON.
 * @throws an error of the connection if the connection is lost
 */
export async function readJson(body: Readable, bytesMax: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let receivedBytes = 0;
  const source: AsyncIterable<Buffer> = body;
  for await (const chunk of source) {
    receivedBytes += chunk.length;
    if (receivedBytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
