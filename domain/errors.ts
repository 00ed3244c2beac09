/**
 * Table of error codes. A code is the field `error` of an HTTP response, the type of an
 * `ApplicationFailure` in Temporal, and a row of docs/errors.md.
 *
 * Response bodies with status 401, 402, 403, 404, 429 or 500 have the texts of spec §7.
 */

interface ErrorRow {
  status: number;
  /** True if the same request may succeed later. */
  retryable: boolean;
  message: string;
}

/** Defines an error that the same request causes again. */
const permanentError = (status: number, message: string): ErrorRow => ({
  status,
  retryable: false,
  message,
});
/** Defines an error after which the same request may succeed later. */
const temporaryError = (status: number, message: string): ErrorRow => ({
  status,
  retryable: true,
  message,
});

export const errorTable = {
  Unauthorized: permanentError(401, 'Missing or invalid API key.'),
  FORBIDDEN: permanentError(403, 'This key may not use this resource.'),
  ORGANIZATION_SUSPENDED: permanentError(403, 'The organization is suspended.'),
  STORAGE_QUOTA_EXCEEDED: permanentError(
    403,
    'The organization has used its whole storage quota (see `storage` in GET /usage).',
  ),
  INVALID_REQUEST: permanentError(400, 'The request is not valid.'),
  UNKNOWN_MODEL: permanentError(400, 'The model does not exist.'),
  UNSUPPORTED_PARAMETER: permanentError(400, 'The model does not support this parameter.'),
  CONFLICTING_FIELDS: permanentError(400, 'Two fields of the request contradict each other.'),
  INVALID_INPUT_URL: permanentError(400, 'An input URL cannot be used.'),
  KEY_QUOTA_REACHED: permanentError(
    400,
    'The user already has the maximum number of API keys. Revoke one first.',
  ),
  NOT_FOUND: permanentError(404, 'No such resource.'),
  JOB_NOT_FOUND: permanentError(404, 'No such job.'),
  METHOD_NOT_ALLOWED: permanentError(405, 'Method not allowed.'),
  MEDIA_DELETED: permanentError(410, "The job's owner has deleted its media."),
  REQUEST_TIMEOUT: temporaryError(408, 'The request took too long to arrive.'),
  JOB_ALREADY_DONE: permanentError(409, 'The job has already ended.'),
  JOB_NOT_REFUNDABLE: permanentError(
    409,
    'All charged credits of the job have already been refunded.',
  ),
  JOB_NOT_DONE: temporaryError(409, 'The job has not ended yet.'),
  KEY_ALREADY_CREATED: permanentError(
    409,
    'This Idempotency-Key was already used to create an API key. Its secret was shown only once.',
  ),
  ANSWER_NOT_KEPT: permanentError(
    409,
    'The chat with this Idempotency-Key was charged, but its answer was not stored.',
  ),
  JOB_RUNNING: permanentError(
    409,
    'The workflow of the job is still running and will settle the job itself.',
  ),
  OUTCOME_UNDECIDED: temporaryError(
    409,
    'The provider may still return a result, but the job cannot be continued.',
  ),
  KEY_ALREADY_REPLACED: permanentError(
    409,
    'This API key has already been replaced by a rotation.',
  ),
  REQUEST_IN_PROGRESS: temporaryError(
    409,
    'A request with this Idempotency-Key is still being admitted. Try again.',
  ),
  UPLOAD_IN_PROGRESS: temporaryError(
    409,
    'Another request is sending the file to this upload URL.',
  ),
  ALREADY_UPLOADED: permanentError(409, 'A file has already been sent to this upload URL.'),
  PAYLOAD_TOO_LARGE: permanentError(413, 'The request body is too large.'),
  FILE_TOO_LARGE: permanentError(413, 'The file is too large.'),
  UNSUPPORTED_MEDIA_TYPE: permanentError(
    415,
    'The Content-Type of the request is not supported by this endpoint.',
  ),
  IDEMPOTENCY_KEY_REUSED: permanentError(
    422,
    'This Idempotency-Key was already used for a different request.',
  ),
  INSUFFICIENT_CREDITS: permanentError(402, 'The organization does not have enough credits.'),
  KEY_LIMIT_EXCEEDED: permanentError(
    402,
    'The remaining limit of this key is too low for this request.',
  ),
  WINDOW_LIMIT_EXCEEDED: permanentError(
    402,
    'The request costs more than the organization may use in a whole six-hour window.',
  ),
  'Rate limit exceeded. Please slow down.': temporaryError(
    429,
    'Too many requests for this key within one minute.',
  ),
  WINDOW_EXHAUSTED: temporaryError(429, 'The six-hour usage window is exhausted.'),
  CONTEXT_LENGTH_EXCEEDED: permanentError(400, 'The prompt is too long for the model.'),
  PROVIDER_REJECTED_INPUT: permanentError(400, 'The provider rejected the input.'),
  CONTENT_POLICY: permanentError(400, 'The provider rejected the input under its content policy.'),
  PROVIDER_ERROR: temporaryError(500, 'The provider failed.'),
  STORAGE_ERROR: temporaryError(500, 'The result could not be stored.'),
  DEADLINE_EXCEEDED: temporaryError(500, 'The provider did not finish before the deadline.'),
  OUTCOME_UNKNOWN: temporaryError(
    500,
    'The provider never reported the outcome of a call. Nothing was charged.',
  ),
  CANCELED: permanentError(409, 'The job was canceled.'),
  JOB_LOST: temporaryError(500, 'The job ended abnormally. Nothing was charged.'),
  SERVICE_UNAVAILABLE: temporaryError(
    503,
    'The service cannot take this request right now. Try again.',
  ),
  'Internal server error': temporaryError(500, 'Something went wrong on our side.'),
};

export type ErrorCode = keyof typeof errorTable;

/**
 * Invalid field of a request. `path` identifies the field; `message` contains the allowed values.
 */
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

/** Expected failure with a code of the error table. The message describes the specific case. */
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

/**
 * Creates the error for a request with invalid fields. Its message describes the first invalid
 * field.
 */
export function invalidFieldsError(code: ErrorCode, details: ErrorDetail[]): GatewayError {
  const [first] = details;
  return new GatewayError(code, first && `${first.path}: ${first.message}`, { details });
}

/** Creates the error for a request with one invalid field. */
export function fieldError(code: ErrorCode, path: string, message: string): GatewayError {
  return invalidFieldsError(code, [{ path, message }]);
}

/** Creates the error for a request with several fields that are invalid for the same reason. */
export function fieldsError(
  code: ErrorCode,
  paths: readonly string[],
  message: string,
): GatewayError {
  return new GatewayError(code, message, { details: paths.map((path) => ({ path, message })) });
}

/** Error for a violated assumption in the gateway's code. The API responds with status 500. */
class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/**
 * Throws if an assumption of the code does not hold. `message` states the failure.
 * @throws AssertionError
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
