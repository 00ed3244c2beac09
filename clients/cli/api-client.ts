/** HTTP client of the command line, built on the transport in clients/typescript. */
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { createSend } from '../typescript/transport.ts';

/** Error that ends a command: a missing setting, an unreadable file or an unexpected response. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

interface RequestOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  query?: Record<string, string | number | undefined>;
  /** Object to send as JSON, or a `Blob` to send as it is. */
  body?: object;
  form?: FormData;
  headers?: Record<string, string>;
  /** True to send an Idempotency-Key, and to retry the request if no response arrives. */
  canRetry?: boolean;
}

/** Response with its JSON body: `body` was checked by a schema, `raw` is unchecked. */
export interface ApiResponse<Body> {
  status: number;
  body: Body;
  raw: unknown;
}

/** Client that sends requests to one gateway with one key. */
export interface ApiClient {
  /** Sends a request and parses the response body. @throws StudioError, CliError */
  send: <Body>(
    path: string,
    schema: z.ZodType<Body>,
    options?: RequestOptions,
  ) => Promise<ApiResponse<Body>>;
  /** Sends a request and returns the response without reading its body. @throws StudioError */
  fetchResponse: (path: string, options?: RequestOptions) => Promise<Response>;
}

/** Request timeout. It is long because a chat model may take minutes to answer. */
const timeoutMs = 600_000;

/** Calls `fetch`, but fails on a redirect, which could send the key to another server. */
const fetchWithoutRedirect = (url: string, init: RequestInit): Promise<Response> =>
  globalThis.fetch(url, { ...init, redirect: 'error' });
const sendWithRetries = createSend({ fetch: fetchWithoutRedirect, timeoutMs });
const sendOnce = createSend({ fetch: fetchWithoutRedirect, timeoutMs, retries: 0 });

/** Creates a client that sends requests to one gateway with one key. */
export function createApiClient(apiUrl: string, key: string): ApiClient {
  function fetchResponse(path: string, options: RequestOptions = {}): Promise<Response> {
    const { body, form, query = {}, canRetry = false } = options;
    const url = new URL(`${apiUrl}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const isBlob = body instanceof Blob;
    const payload = body === undefined ? form : isBlob ? body : JSON.stringify(body);
    const { method = payload === undefined ? 'GET' : 'POST' } = options;
    const sendRequest = canRetry || method === 'GET' ? sendWithRetries : sendOnce;
    return sendRequest({
      url: url.href,
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'content-type': isBlob ? body.type : 'application/json' }),
        ...(canRetry && { 'idempotency-key': randomUUID() }),
        ...options.headers,
      },
      ...(payload !== undefined && { body: payload }),
    });
  }

  return {
    fetchResponse,
    async send(path, schema, options) {
      const response = await fetchResponse(path, options);
      const raw: unknown = await response.json();
      const parsed = schema.safeParse(raw);
      if (!parsed.success) {
        throw new CliError(`${path}: unexpected response body (${parsed.error.message})`);
      }
      return { status: response.status, body: parsed.data, raw };
    },
  };
}
