/**
 * Table of error codes. A code is the field `error` of an HTTP response, the type of an
 * `ApplicationFailure` in Temporal, and a row of docs/errors.md.
 *
 * The statuses and codes follow spec §7.
 */

interface ErrorRow {
  status: number;
  /** True if the same request may succeed later. */
  retryable: boolean;
  message: string;
}

/** Defines an error that the same request causes again. */
const permanent = (status: number, message: string): ErrorRow => ({
  status,
  retryable: false,
  message,
});
/** Defines an error after which the same request may succeed later. */
const temporary = (status: number, message: string): ErrorRow => ({
  status,
  retryable: true,
  message,
});

export const errorTable = {
  Unauthorized: permanent(401, 'Missing or invalid API key.'),
  FORBIDDEN: permanent(403, 'This key may not use this resource.'),
  ORGANIZATION_SUSPENDED: permanent(403, 'The organization is suspended.'),
  END_USER_SUSPENDED: permanent(403, 'The end user is suspended.'),
  STORAGE_QUOTA_EXCEEDED: permanent(
    403,
    'The organization has used its whole storage quota (see `storage` in GET /usage).',
  ),
  INVALID_REQUEST: permanent(400, 'The request is not valid.'),
  UNKNOWN_MODEL: permanent(400, 'The model does not exist.'),
  UNSUPPORTED_PARAMETER: permanent(400, 'The model does not support this parameter.'),
  CONFLICTING_FIELDS: permanent(400, 'Two fields of the request contradict each other.'),
  INVALID_INPUT_URL: permanent(400, 'An input URL cannot be used.'),
  KEY_QUOTA_REACHED: permanent(
    400,
    'The user already has the maximum number of API keys. Revoke one first.',
  ),
  WEBHOOK_ENDPOINT_QUOTA_REACHED: permanent(
    400,
    'The organization already has the maximum number of webhook endpoints. Delete one first.',
  ),
  RECIPE_QUOTA_REACHED: permanent(
    400,
    'The organization already has the maximum number or size of recipes. Delete one first.',
  ),
  SHARE_QUOTA_REACHED: permanent(
    400,
    'The job already has the maximum number of share links. Revoke one first.',
  ),
  NOT_FOUND: permanent(404, 'No such resource.'),
  JOB_NOT_FOUND: permanent(404, 'No such job.'),
  BULK_NOT_FOUND: permanent(404, 'No such bulk job.'),
  METHOD_NOT_ALLOWED: permanent(405, 'Method not allowed.'),
  JOB_ARCHIVED: permanent(410, 'The job is old, and was archived: ask the operator for it.'),
  CHAT_ARCHIVED: permanent(410, 'The chat is old, and was archived: ask the operator for it.'),
  ANSWER_DELETED: permanent(410, 'The answer was deleted because of its age.'),
  SHARE_ENDED: permanent(410, 'The share link has expired or was revoked.'),
  USAGE_ARCHIVED: permanent(410, 'The events are old, and were archived.'),
  MEDIA_DELETED: permanent(410, "The job's owner has deleted its media."),
  REQUEST_TIMEOUT: temporary(408, 'The request took too long to arrive.'),
  JOB_ALREADY_DONE: permanent(409, 'The job has already ended.'),
  BULK_ALREADY_DONE: permanent(409, 'The bulk job has already ended.'),
  JOB_NOT_REFUNDABLE: permanent(409, 'All charged credits of the job have already been refunded.'),
  NO_RESULT: permanent(409, 'Only the result of a completed Studio job can be shared.'),
  JOB_NOT_DONE: temporary(409, 'The job has not ended yet.'),
  NOT_AWAITING: permanent(409, 'The step does not wait for a decision.'),
  ALREADY_DECIDED: permanent(409, 'Another decision about the step was made before.'),
  ANSWER_NOT_KEPT: permanent(
    409,
    'The request with this Idempotency-Key succeeded, but its answer was not stored.',
  ),
  JOB_RUNNING: permanent(
    409,
    'The workflow of the job is still running and will settle the job itself.',
  ),
  OUTCOME_UNDECIDED: temporary(
    409,
    'The provider may still return a result, but the job cannot be continued.',
  ),
  KEY_ALREADY_REPLACED: permanent(409, 'This API key has already been replaced by a rotation.'),
  REQUEST_IN_PROGRESS: temporary(
    409,
    'A request with this Idempotency-Key is still being admitted. Try again.',
  ),
  UPLOAD_IN_PROGRESS: temporary(409, 'Another request is sending the file to this upload URL.'),
  ALREADY_UPLOADED: permanent(409, 'A file has already been sent to this upload URL.'),
  PAYLOAD_TOO_LARGE: permanent(413, 'The request body is too large.'),
  FILE_TOO_LARGE: permanent(413, 'The file is too large.'),
  UNSUPPORTED_MEDIA_TYPE: permanent(
    415,
    'The Content-Type of the request is not supported by this endpoint.',
  ),
  RANGE_NOT_SATISFIABLE: permanent(416, 'The file has no byte of the requested range.'),
  IDEMPOTENCY_KEY_REUSED: permanent(422, 'This Idempotency-Key was used for a different request.'),
  INSUFFICIENT_CREDITS: permanent(402, 'The organization does not have enough credits.'),
  KEY_LIMIT_EXCEEDED: permanent(
    402,
    'The remaining limit of this key is too low for this request.',
  ),
  END_USER_LIMIT_EXCEEDED: permanent(
    402,
    'The remaining limit of the end user is too low for this request.',
  ),
  WINDOW_LIMIT_EXCEEDED: permanent(
    402,
    'The request costs more than the organization may use in a whole six-hour window.',
  ),
  'Rate limit exceeded. Please slow down.': temporary(
    429,
    'Too many requests for this key within one minute.',
  ),
  JOBS_MAX_REACHED: temporary(
    429,
    'As many Studio jobs are open as the key or the organization may have at the same time.',
  ),
  BULK_LIMIT_REACHED: temporary(
    429,
    'The organization has too many open bulk jobs, or too many open items in them.',
  ),
  WINDOW_EXHAUSTED: temporary(429, 'The six-hour usage window is exhausted.'),
  PRICE_LIMIT_EXCEEDED: permanent(400, 'The price exceeds `maxCredits`, or the price of the step.'),
  SKIPPED: permanent(409, 'A step whose result this step takes did not succeed.'),
  APPROVAL_REJECTED: permanent(409, 'The step was not approved.'),
  APPROVAL_TIMEOUT: permanent(409, 'The step was not approved in time.'),
  CONTEXT_LENGTH_EXCEEDED: permanent(400, 'The prompt is too long for the model.'),
  PROVIDER_REJECTED_INPUT: permanent(400, 'The provider rejected the input.'),
  CONTENT_POLICY: permanent(400, 'The provider rejected the input under its content policy.'),
  PROVIDER_ERROR: temporary(500, 'The provider failed.'),
  STORAGE_ERROR: temporary(500, 'The result could not be stored.'),
  DEADLINE_EXCEEDED: temporary(500, 'The provider did not finish before the deadline.'),
  OUTCOME_UNKNOWN: temporary(500, 'The provider never reported the outcome. Nothing was charged.'),
  CANCELED: permanent(409, 'The job was canceled.'),
  JOB_LOST: temporary(500, 'The job ended abnormally. Nothing was charged.'),
  SERVICE_UNAVAILABLE: temporary(503, 'The service cannot take this request right now. Try again.'),
  'Internal server error': temporary(500, 'Something went wrong on our side.'),
};

export type ErrorCode = keyof typeof errorTable;

/** Invalid field of a request: its path, and a message with the allowed values. */
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
  /** Code of the provider's error, which OpenAI's clients receive as `code`. */
  providerCode?: string | undefined;
  cause?: unknown;
}

/** Expected failure with a code of the error table. The message describes the specific case. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly code: ErrorCode;
  readonly details: ErrorDetail[] | undefined;
  readonly body: Record<string, unknown> | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly providerCode: string | undefined;

  constructor(code: ErrorCode, message?: string, extras: GatewayErrorExtras = {}) {
    super(message ?? errorTable[code].message, { cause: extras.cause });
    this.code = code;
    this.details = extras.details;
    this.body = extras.body;
    this.retryAfterSeconds = extras.retryAfterSeconds;
    this.providerCode = extras.providerCode;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }
}

/** Creates the error for a request with invalid fields. Its message describes the first one. */
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

/** Returns an error whose paths are renamed. Returns errors of other kinds, and those without paths, unchanged. */
export function renameFields(error: unknown, rename: (path: string) => string): unknown {
  if (!(error instanceof GatewayError) || !error.details) return error;
  const { code, body, retryAfterSeconds, providerCode, cause } = error;
  const details = error.details.map(({ path, message }) => ({ path: rename(path), message }));
  const [first] = error.details;
  const message =
    first && error.message.startsWith(`${first.path}:`)
      ? rename(first.path) + error.message.slice(first.path.length)
      : error.message;
  return new GatewayError(code, message, { details, body, retryAfterSeconds, providerCode, cause });
}

/**
 * Returns an error about a value as one about the request that contains it: with `prefix`, the path
 * of the value, before each path. Returns errors of other kinds unchanged.
 */
export function prefixError(
  error: unknown,
  prefix: string,
  show = (text: string): string => text,
): unknown {
  if (!(error instanceof GatewayError)) return error;
  const details = error.details?.map(({ path, message }) => ({
    path: path === '(body)' ? prefix : `${prefix}.${path}`,
    message: show(message),
  })) ?? [{ path: prefix, message: show(error.message) }];
  const [first] = error.details ?? [];
  const isFirst = first !== undefined && error.message === `${first.path}: ${first.message}`;
  if (isFirst) return invalidFieldsError(error.code, details);
  return new GatewayError(error.code, `${prefix}: ${show(error.message)}`, {
    details,
    body: error.body,
    retryAfterSeconds: error.retryAfterSeconds,
    cause: error,
  });
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
