/** The public API, as the console asks it: with the session's cookie, typed by the API's own description. */
import createClient from 'openapi-fetch';
import type { components, paths } from '../../clients/typescript/schema.ts';

/** Bodies of the API by their names. */
export type Schemas = components['schemas'];
/** A job, as lists and events show it. */
export type Job = Schemas['Job'];

/** Client of the API with the cookie of the session. */
export const api = createClient<paths>({ baseUrl: location.origin });

/** A field of a request that was refused. */
export interface RefusedField {
  path: string;
  message: string;
}

/** A refusal of the API, or `AWAY` where no answer came. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;
  /** 0 where no answer came. */
  readonly status: number;
  readonly fields: readonly RefusedField[];
  readonly requestId: string | null;

  /** Time at which a request that was rejected with 429 may be sent again, in milliseconds since 1970; else null. */
  readonly retryAtMs: number | null;

  constructor(status: number, body: unknown, retryAfter: string | null = null) {
    const told: Record<string, unknown> = isRecord(body) ? body : {};
    const code = textOf(told['error']) ?? codeOf(told['error']) ?? `HTTP ${status}`;
    super(textOf(told['message']) ?? (code === 'Unauthorized' ? 'You are signed out.' : code));
    this.code = code;
    this.status = status;
    this.retryAtMs = status === 429 ? Date.now() + 1000 * (Number(retryAfter) || 1) : null;
    this.fields = Array.isArray(told['details']) ? told['details'].filter(isField) : [];
    this.requestId = textOf(told['requestId']) ?? null;
  }

  /** Whether the same request may pass later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

const away = { error: 'AWAY', message: 'The gateway does not respond.' };

/** The answer of a request. @throws ApiError */
export async function answered<Data>(
  asked: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await asked.catch((cause: unknown) => {
    throw cause instanceof ApiError ? cause : new ApiError(0, away);
  });
  if (!response.ok || data === undefined)
    throw new ApiError(response.status, error, response.headers.get('retry-after'));
  return data;
}

/** A request to a path that is only known while the console runs. @throws ApiError */
export async function ask<Data>(
  path: string,
  { method = 'GET', body }: { method?: string; body?: unknown } = {},
): Promise<Data> {
  const response = await send(path, { method, body });
  return response.json();
}

/** The same, with the answer as it comes. @throws ApiError */
export async function send(
  path: string,
  { signal, method = 'GET', body }: { method?: string; body?: unknown; signal?: AbortSignal },
): Promise<Response> {
  const response = await fetch(path, {
    method,
    ...(signal && { signal }),
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, away);
  });
  if (!response.ok) {
    const answer: unknown = await response.json().catch(() => null);
    throw new ApiError(response.status, answer, response.headers.get('retry-after'));
  }
  return response;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Of an error in OpenAI's shape. */
function codeOf(value: unknown): string | undefined {
  return isRecord(value) ? textOf(value['code']) : undefined;
}

function isField(value: unknown): value is RefusedField {
  return (
    isRecord(value) && typeof value['path'] === 'string' && typeof value['message'] === 'string'
  );
}
