/**
 * Error table. A code is the `error` field of an HTTP response, the `ApplicationFailure.type` in
 * Temporal, and a row of docs/errors.md.
 *
 * Sources: spec §7 (401, 402, 403, 404, 429, 500 bodies), design §4, §5 and §7.
 */

interface ErrorRow {
  status: number;
  /** True if the same request may succeed later without a change. */
  retryable: boolean;
  message: string;
}

/** Makes a row for an error that occurs again if the same request is repeated. */
const lasting = (status: number, message: string): ErrorRow => ({
  status,
  retryable: false,
  message,
});
/** Makes a row for an error after which the same request may succeed later. */
const passing = (status: number, message: string): ErrorRow => ({
  status,
  retryable: true,
  message,
});

export const errorTable = {
  Unauthorized: lasting(401, 'Missing or invalid API key.'),
  FORBIDDEN: lasting(403, 'This key may not use this resource.'),
  ORGANIZATION_SUSPENDED: lasting(403, 'The organization is suspended.'),
  STORAGE_QUOTA_EXCEEDED: lasting(
    403,
    'The organization has used up its storage quota (`storage` of /usage).',
  ),
  INVALID_REQUEST: lasting(400, 'The request is not valid.'),
  UNKNOWN_MODEL: lasting(400, 'The model does not exist.'),
  UNSUPPORTED_PARAMETER: lasting(400, 'The model does not support this parameter.'),
  CONFLICTING_FIELDS: lasting(400, 'Two fields of the request contradict each other.'),
  INVALID_INPUT_URL: lasting(400, 'An input URL cannot be used.'),
  KEY_QUOTA_REACHED: lasting(
    400,
    'The user already has the most API keys allowed. Revoke one first.',
  ),
  NOT_FOUND: lasting(404, 'No such resource.'),
  JOB_NOT_FOUND: lasting(404, 'No such job.'),
  METHOD_NOT_ALLOWED: lasting(405, 'Method not allowed.'),
  MEDIA_DELETED: lasting(410, 'The media of this job were deleted by their owner.'),
  REQUEST_TIMEOUT: passing(408, 'The request took too long to arrive.'),
  JOB_ALREADY_DONE: lasting(409, 'The job has already ended.'),
  JOB_NOT_REFUNDABLE: lasting(409, 'The job has no charged credits that are not refunded yet.'),
  JOB_NOT_DONE: passing(409, 'The job has not ended yet.'),
  KEY_ALREADY_CREATED: lasting(
    409,
    'This Idempotency-Key has made an API key, whose secret was shown once.',
  ),
  ANSWER_NOT_KEPT: lasting(
    409,
    'The chat of this Idempotency-Key was charged, but its answer was not kept.',
  ),
  JOB_RUNNING: lasting(409, 'The workflow of the job is running and settles the job itself.'),
  OUTCOME_UNDECIDED: passing(
    409,
    'The provider may still deliver, and the job cannot be continued.',
  ),
  KEY_ALREADY_REPLACED: lasting(409, 'This API key has already been replaced by a rotation.'),
  REQUEST_IN_PROGRESS: passing(
    409,
    'A request with this Idempotency-Key is still being admitted. Try again.',
  ),
  UPLOAD_IN_PROGRESS: passing(409, 'The file of this URL is being sent by another request.'),
  ALREADY_UPLOADED: lasting(409, 'This object already exists.'),
  PAYLOAD_TOO_LARGE: lasting(413, 'The request body is too large.'),
  FILE_TOO_LARGE: lasting(413, 'The file is too large.'),
  UNSUPPORTED_MEDIA_TYPE: lasting(
    415,
    'The Content-Type of the request is not supported by this endpoint.',
  ),
  IDEMPOTENCY_KEY_REUSED: lasting(422, 'This Idempotency-Key was used with another request.'),
  INSUFFICIENT_CREDITS: lasting(402, 'The organization does not have enough credits.'),
  KEY_LIMIT_EXCEEDED: lasting(402, 'The remaining limit of this key is too low for this request.'),
  WINDOW_LIMIT_EXCEEDED: lasting(
    402,
    'The request costs more than the organization may use in a whole six-hour window.',
  ),
  'Rate limit exceeded. Please slow down.': passing(
    429,
    'Too many requests for this key within one minute.',
  ),
  WINDOW_EXHAUSTED: passing(429, 'The six-hour usage window is exhausted.'),
  CONTEXT_LENGTH_EXCEEDED: lasting(400, 'The prompt is too long for the model.'),
  PROVIDER_REJECTED_INPUT: lasting(400, 'The provider did not accept the input.'),
  CONTENT_POLICY: lasting(400, 'The provider refused the input under its content policy.'),
  PROVIDER_ERROR: passing(500, 'The provider failed.'),
  STORAGE_ERROR: passing(500, 'The result could not be stored.'),
  DEADLINE_EXCEEDED: passing(500, 'The provider did not finish before the deadline.'),
  OUTCOME_UNKNOWN: passing(500, 'The provider never reported the outcome. Nothing was charged.'),
  CANCELED: lasting(409, 'The job was canceled.'),
  JOB_LOST: passing(500, 'The job ended abnormally. Nothing was charged.'),
  SERVICE_UNAVAILABLE: passing(503, 'The service cannot take this request right now. Try again.'),
  'Internal server error': passing(500, 'Something went wrong on our side.'),
};

export type ErrorCode = keyof typeof errorTable;

/** One invalid field of a request: its path, and the values that are allowed. */
export interface ErrorDetail {
  path: string;
  message: string;
}

interface GatewayErrorExtras {
  details?: ErrorDetail[] | undefined;
  /** Additional fields of the HTTP response, e.g. `resetAt`. */
  body?: Record<string, unknown> | undefined;
  /** Seconds for the `Retry-After` header. */
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** Expected failure: a code of the error table, with a message for this case. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly code: ErrorCode;
  readonly details: ErrorDetail[] | undefined;
  readonly body: Record<string, unknown> | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message?: string, extras: GatewayErrorExtras = {}) {
    super(message ?? errorTable[code].message, { cause: extras.cause });
    this.code = code;
    this.details = extras.details;
    this.body = extras.body;
    this.retryAfterSeconds = extras.retryAfterSeconds;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }
}

/** Makes the error of a request with invalid fields; its message describes the first of them. */
export function refusedFields(code: ErrorCode, details: ErrorDetail[]): GatewayError {
  const [first] = details;
  return new GatewayError(code, first && `${first.path}: ${first.message}`, { details });
}

/** Makes the error of a request with one invalid field. */
export function fieldError(code: ErrorCode, path: string, message: string): GatewayError {
  return refusedFields(code, [{ path, message }]);
}

/** Makes the error of a request with several fields that are invalid for the same reason. */
export function fieldsError(
  code: ErrorCode,
  paths: readonly string[],
  message: string,
): GatewayError {
  return new GatewayError(code, message, { details: paths.map((path) => ({ path, message })) });
}

/** A violated assumption of the gateway's own code; the API returns 500. */
class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/** Checks an assumption of the code. @throws AssertionError */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
