/** Client of the public API. It sends the session cookie; its types come from OpenAPI. */
import createClient from 'openapi-fetch';
import { StudioError, buildError } from '../../typescript/errors.ts';
import type { components, paths } from '../../typescript/schema.ts';

/** Schemas of the public API. */
export type Schemas = components['schemas'];
/** Job, as the API returns it. */
export type Job = Schemas['Job'];

/** Client of the public API. */
export const api = createClient<paths>({ baseUrl: location.origin });

/** Error response from the API, or `CONNECTION_FAILED` with status 0 if there was no response. */
export class ApiError extends StudioError {
  /** Time in Unix ms after which a request may be retried. Null unless the status is 429. */
  readonly retryAtMs: number | null;

  constructor(status: number, body: unknown, retryAfter: string | null = null) {
    const { code, message, ...properties } = buildError(body, status, null);
    super(code, message, properties);
    this.retryAtMs = status === 429 ? Date.now() + 1000 * (Number(retryAfter) || 1) : null;
  }

  /** True if the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || (this.status ?? 0) >= 500;
  }
}

const noResponse = { error: 'CONNECTION_FAILED', message: 'The gateway does not respond.' };

/** Waits for a typed request and returns the response body. @throws ApiError */
export async function unwrap<Data>(
  request: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await request.catch((cause: unknown) => {
    throw cause instanceof ApiError ? cause : new ApiError(0, noResponse);
  });
  if (!response.ok || data === undefined)
    throw new ApiError(response.status, error, response.headers.get('retry-after'));
  return data;
}

/**
 * Sends a request to a path that is known only at run time, and returns the response body.
 * @throws ApiError
 */
export async function requestJson<Data>(
  path: string,
  options: { method?: string; body?: unknown; idempotencyKey?: string } = {},
): Promise<Data> {
  const response = await sendRequest(path, options);
  return response.json();
}

/** Creates an Idempotency-Key. Pages on plain HTTP have no `crypto.randomUUID`. */
export const newRequestKey = (): string =>
  `console-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`;

/** Sends a request and returns the response without reading its body. @throws ApiError */
export async function sendRequest(
  path: string,
  options: { method?: string; body?: unknown; idempotencyKey?: string; signal?: AbortSignal },
): Promise<Response> {
  const { signal, method = 'GET', body, idempotencyKey } = options;
  const response = await fetch(path, {
    method,
    ...(signal && { signal }),
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: {
        'content-type': 'application/json',
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
    }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, noResponse);
  });
  if (!response.ok) {
    const error: unknown = await response.json().catch(() => null);
    throw new ApiError(response.status, error, response.headers.get('retry-after'));
  }
  return response;
}
