/** The gateway over HTTP: one request, its errors in words, safe repeats. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

/** An answer that is no success. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** The body as it came; undefined when it was no JSON. */
  readonly body: unknown;

  constructor(status: number, body: unknown, message: string) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** A request that never got an answer, or that misses what it needs. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

interface RequestOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  query?: Record<string, string | number | undefined>;
  body?: object;
  form?: FormData;
  headers?: Record<string, string>;
  /** The request may be sent again when no answer came: it carries an Idempotency-Key. */
  repeatable?: boolean;
}

/** An answer with its body parsed, and as it came. */
export interface Answer<Body> {
  status: number;
  body: Body;
  raw: unknown;
}

/** Sends requests with one key. */
export interface ApiClient {
  /** @throws ApiError, CliError */
  send: <Body>(
    path: string,
    schema: z.ZodType<Body>,
    options?: RequestOptions,
  ) => Promise<Answer<Body>>;
  /** The answer with its body unread. @throws ApiError, CliError */
  open: (path: string, options?: RequestOptions) => Promise<Response>;
}

const attemptsMax = 3;
const retryWaitMs = 500;
const retryWaitMaxSeconds = 60;

const errorBody = z.looseObject({
  error: z.union([z.string(), z.looseObject({ message: z.string().optional() })]),
  message: z.string().optional(),
  requestId: z.string().optional(),
  details: z.array(z.looseObject({ path: z.string(), message: z.string() })).optional(),
});

/** A client for one address and one key. */
export function createApiClient(apiUrl: string, key: string): ApiClient {
  async function attempt(path: string, options: RequestOptions): Promise<Response> {
    const { body, form, query = {} } = options;
    const url = new URL(`${apiUrl}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const payload = body === undefined ? form : JSON.stringify(body);
    return fetch(url, {
      method: options.method ?? (payload === undefined ? 'GET' : 'POST'),
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(payload !== undefined && { body: payload }),
      redirect: 'error',
    });
  }

  async function open(path: string, options: RequestOptions = {}): Promise<Response> {
    const reads = options.method === undefined && !options.body && !options.form;
    const repeatable = options.repeatable ?? reads;
    const headers = {
      ...options.headers,
      ...(options.repeatable && { 'idempotency-key': randomUUID() }),
    };
    for (let count = 1; ; count += 1) {
      const last = !repeatable || count === attemptsMax;
      const response = await attempt(path, { ...options, headers }).catch((error: unknown) => {
        if (last) throw new CliError(`${apiUrl} does not answer (${causeOf(error)})`);
        return null;
      });
      if (response?.ok) return response;
      const again = response === null || response.status === 503 || response.status === 429;
      if (response && (last || !again)) throw await errorOf(response);
      const seconds = Number(response?.headers.get('retry-after') ?? 'NaN');
      if (response && seconds > retryWaitMaxSeconds) throw await errorOf(response);
      await sleep(Number.isFinite(seconds) ? seconds * 1000 : retryWaitMs * count);
    }
  }

  return {
    open,
    async send(path, schema, options) {
      const response = await open(path, options);
      const raw: unknown = await response.json();
      const parsed = schema.safeParse(raw);
      if (!parsed.success) {
        throw new CliError(
          `${path}: the answer is not what was expected (${parsed.error.message})`,
        );
      }
      return { status: response.status, body: parsed.data, raw };
    },
  };
}

async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const { data } = errorBody.safeParse(body);
  if (!data) return new ApiError(response.status, body, `HTTP ${response.status}`);
  const code = typeof data.error === 'string' ? data.error : data.error.message;
  const details = (data.details ?? []).map(({ path, message }) => `\n  ${path}: ${message}`);
  const request = data.requestId ? ` (request ${data.requestId})` : '';
  const text = data.message ? `: ${data.message}` : '';
  return new ApiError(response.status, body, `${code}${text}${request}${details.join('')}`);
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  return 'code' in cause ? String(cause.code) : cause.message;
}
