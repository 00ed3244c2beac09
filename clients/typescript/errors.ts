/** Errors of the client: one class; `code` says which error it is. */
import type { components } from './schema.ts';

/** Error codes of the service (docs/errors.md), and two for requests without a response. */
export type ErrorCode =
  | NonNullable<components['schemas']['JobOutput']['error']>['code']
  | 'CONNECTION_FAILED'
  | 'TIMEOUT';

/** Invalid field of a request. */
export interface ErrorDetail {
  path: string;
  message: string;
}

interface ErrorFacts {
  /** HTTP status; null if there was no response, or the job failed after it was accepted. */
  status?: number | null;
  requestId?: string | null;
  jobId?: string | null;
  details?: readonly ErrorDetail[];
  /** Body of the response, with fields such as `required` and `resetAt`. */
  body?: unknown;
  cause?: unknown;
}

/** Rejected request, failed or canceled job, or request without a response. */
export class StudioError extends Error {
  override readonly name = 'StudioError';
  /** A later version of the service may have further codes. */
  readonly code: ErrorCode | (string & {});
  readonly status: number | null;
  readonly requestId: string | null;
  /** Job that the error concerns; null if there is none. */
  readonly jobId: string | null;
  readonly details: readonly ErrorDetail[];
  readonly body: unknown;

  constructor(code: ErrorCode | (string & {}), message: string, facts: ErrorFacts = {}) {
    super(message, { cause: facts.cause });
    this.code = code;
    this.status = facts.status ?? null;
    this.requestId = facts.requestId ?? null;
    this.jobId = facts.jobId ?? null;
    this.details = facts.details ?? [];
    this.body = facts.body;
  }
}

/**
 * Returns an error with the job that it concerns; an error that names a job, and any other value,
 * stays as it is.
 */
export function withJob(error: unknown, jobId: string): unknown {
  if (!(error instanceof StudioError) || error.jobId !== null) return error;
  const { code, message, ...facts } = error;
  return new StudioError(code, message, { ...facts, jobId, cause: error });
}

interface ErrorBody {
  /** An object in responses of OpenAI-compatible endpoints. */
  error?: string | { code?: string | null; message?: string };
  message?: string;
  requestId?: string;
  jobId?: string;
  details?: ErrorDetail[];
}

/** Makes the error of a response body. */
export function makeError(
  body: unknown,
  status: number | null,
  requestId: string | null,
): StudioError {
  const fields: ErrorBody = typeof body === 'object' && body !== null ? body : {};
  const inner = typeof fields.error === 'object' ? fields.error : {};
  const code = (typeof fields.error === 'string' ? fields.error : inner.code) ?? `HTTP_${status}`;
  return new StudioError(code, fields.message ?? inner.message ?? code, {
    status,
    requestId: fields.requestId ?? requestId,
    jobId: fields.jobId ?? null,
    details: fields.details ?? [],
    body,
  });
}

/** Reads the body of an error response, and makes its error. */
export async function readError(response: Response): Promise<StudioError> {
  const body: unknown = await response.json().catch(() => undefined);
  return makeError(body, response.status, response.headers.get('x-request-id'));
}
