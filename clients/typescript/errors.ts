/** Defines the error class of the client. */
import type { components } from './schema.ts';

/** Error codes of the gateway (docs/errors.md), and two codes for requests without a response. */
export type ErrorCode =
  | NonNullable<components['schemas']['JobOutput']['error']>['code']
  | 'CONNECTION_FAILED'
  | 'TIMEOUT';

/** Invalid field of a request. */
export interface ErrorDetail {
  path: string;
  message: string;
}

interface ErrorFields {
  /** HTTP status. Null if there was no response, or if a job failed after it was accepted. */
  status?: number | null;
  requestId?: string | null;
  jobId?: string | null;
  details?: readonly ErrorDetail[];
  /** Body of the response, with fields such as `required` and `resetAt`. */
  body?: unknown;
  cause?: unknown;
}

/** Error for a rejected request, a failed or canceled job, or a request without a response. */
export class StudioError extends Error {
  override readonly name = 'StudioError';
  /** The type allows any string, because a newer version of the gateway may add codes. */
  readonly code: ErrorCode | (string & {});
  readonly status: number | null;
  readonly requestId: string | null;
  /** Id of the job that the error concerns. Null if it does not concern a job. */
  readonly jobId: string | null;
  readonly details: readonly ErrorDetail[];
  readonly body: unknown;

  constructor(code: ErrorCode | (string & {}), message: string, fields: ErrorFields = {}) {
    super(message, { cause: fields.cause });
    this.code = code;
    this.status = fields.status ?? null;
    this.requestId = fields.requestId ?? null;
    this.jobId = fields.jobId ?? null;
    this.details = fields.details ?? [];
    this.body = fields.body;
  }
}

/** Adds the id of a job to a `StudioError` that has none. Returns every other value unchanged. */
export function addJobId(error: unknown, jobId: string): unknown {
  if (!(error instanceof StudioError) || error.jobId !== null) return error;
  const { code, message, ...fields } = error;
  return new StudioError(code, message, { ...fields, jobId, cause: error });
}

interface ErrorBody {
  /** Error code; in responses of OpenAI-compatible endpoints, an object that contains it. */
  error?: string | { code?: string | null; message?: string };
  message?: string;
  requestId?: string;
  jobId?: string;
  details?: ErrorDetail[];
}

/** Builds the error that the body of an error response describes. */
export function buildError(
  body: unknown,
  status: number | null,
  requestId: string | null,
): StudioError {
  const fields: ErrorBody = typeof body === 'object' && body !== null ? body : {};
  const nestedError = typeof fields.error === 'object' ? fields.error : {};
  const code =
    (typeof fields.error === 'string' ? fields.error : nestedError.code) ?? `HTTP_${status}`;
  return new StudioError(code, fields.message ?? nestedError.message ?? code, {
    status,
    requestId: fields.requestId ?? requestId,
    jobId: fields.jobId ?? null,
    details: fields.details ?? [],
    body,
  });
}

/** Reads the body of an error response, and builds the error that it describes. */
export async function readError(response: Response): Promise<StudioError> {
  const body: unknown = await response.json().catch(() => undefined);
  return buildError(body, response.status, response.headers.get('x-request-id'));
}
