/** What is thrown: one class, told apart by `code`. */
import type { components } from './schema.ts';

/** Codes of the service (docs/errors.md), and those of requests that got no answer. */
export type ErrorCode =
  | NonNullable<components['schemas']['JobOutput']['error']>['code']
  | 'CONNECTION_FAILED'
  | 'TIMEOUT';

/** A field at fault. */
export interface ErrorDetail {
  path: string;
  message: string;
}

interface ErrorFacts {
  /** HTTP status; null where there was no answer, or the job failed after it was accepted. */
  status?: number | null;
  requestId?: string | null;
  jobId?: string | null;
  details?: readonly ErrorDetail[];
  /** The whole body of the answer, with fields such as `required` and `resetAt`. */
  body?: unknown;
  cause?: unknown;
}

/** A refusal, a job that failed or was canceled, or no answer at all. */
export class StudioError extends Error {
  override readonly name = 'StudioError';
  /** A code of a later version of the service is passed on as it came. */
  readonly code: ErrorCode | (string & {});
  readonly status: number | null;
  readonly requestId: string | null;
  /** The job that it is about, where there is one. */
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

interface ErrorBody {
  /** An object where OpenAI's shape is spoken. */
  error?: string | { code?: string | null; message?: string };
  message?: string;
  requestId?: string;
  jobId?: string;
  details?: ErrorDetail[];
}

/** The error that a body tells of. */
export function errorOf(
  body: unknown,
  status: number | null,
  requestId: string | null,
): StudioError {
  const told: ErrorBody = typeof body === 'object' && body !== null ? body : {};
  const inner = typeof told.error === 'object' ? told.error : {};
  const code = (typeof told.error === 'string' ? told.error : inner.code) ?? `HTTP_${status}`;
  return new StudioError(code, told.message ?? inner.message ?? code, {
    status,
    requestId: told.requestId ?? requestId,
    jobId: told.jobId ?? null,
    details: told.details ?? [],
    body,
  });
}

/** The error of an answer that is no success; reads its body. */
export async function errorOfResponse(response: Response): Promise<StudioError> {
  const body: unknown = await response.json().catch(() => undefined);
  return errorOf(body, response.status, response.headers.get('x-request-id'));
}
