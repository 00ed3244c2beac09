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
api.use({ onResponse: ({ response }) => readClock(response) });

/** Difference in ms to the clock of the gateway. The browser's clock may be wrong by hours. */
let clockOffsetMs = 0;
/** Difference that is ignored: the header `Date` has whole seconds, and responses take time. */
const clockToleranceMs = 5000;

function readClock({ headers }: Response): void {
  const offsetMs = Date.parse(headers.get('date') ?? '') - Date.now();
  if (!Number.isNaN(offsetMs)) clockOffsetMs = Math.abs(offsetMs) > clockToleranceMs ? offsetMs : 0;
}

/** Returns the time of the gateway in Unix ms. */
export const serverNowMs = (): number => Date.now() + clockOffsetMs;

/** Error response from the API, or `CONNECTION_FAILED` with status 0 if there was no response. */
export class ApiError extends StudioError {
  /** Time in Unix ms after which a request may be retried. Null unless the status is 429. */
  readonly retryAtMs: number | null;

  constructor(status: number, body: unknown, retryAfter: string | null = null) {
    const { code, message, ...properties } = buildError(body, status, null);
    super(code, message, properties);
    this.retryAtMs = status === 429 ? serverNowMs() + 1000 * (Number(retryAfter) || 1) : null;
  }

  /** True if the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || (this.status ?? 0) >= 500;
  }
}

/** Creates the error for a request without a response. */
function noResponseError(): ApiError {
  const message = navigator.onLine
    ? 'The gateway does not respond.'
    : 'This device is offline. Nothing was sent; try again when it is online.';
  return new ApiError(0, { error: 'CONNECTION_FAILED', message });
}

/** Waits for a typed request and returns the response body. @throws ApiError */
export async function unwrap<Data>(
  request: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await request.catch((cause: unknown) => {
    throw cause instanceof ApiError ? cause : noResponseError();
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
      body: body instanceof Blob ? body : JSON.stringify(body),
      headers: {
        'content-type': body instanceof Blob ? body.type : 'application/json',
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
    }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw noResponseError();
  });
  readClock(response);
  if (!response.ok) {
    const error: unknown = await response.json().catch(() => null);
    throw new ApiError(response.status, error, response.headers.get('retry-after'));
  }
  return response;
}
