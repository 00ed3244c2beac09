/**
 * The one error table. A code is, at the same time, the `error` field of an HTTP body, the
 * `ApplicationFailure.type` inside Temporal and the row of docs/errors.md.
 *
 * Sources: spec §7 (401, 402, 403, 404, 429, 500 bodies), design §4, §5 and §7.
 */

interface ErrorRow {
  /** HTTP status of the answer. */
  status: number;
  /** True when the same request may succeed later without a change. */
  retryable: boolean;
  /** Said to the caller when nothing more specific is known. */
  message: string;
}

export const errorTable = {
  Unauthorized: { status: 401, retryable: false, message: 'Missing or invalid API key.' },
  FORBIDDEN: { status: 403, retryable: false, message: 'This key may not use this resource.' },
  ORGANIZATION_SUSPENDED: {
    status: 403,
    retryable: false,
    message: 'The organization is suspended.',
  },
  STORAGE_QUOTA_EXCEEDED: {
    status: 403,
    retryable: false,
    message: 'The organization has used up its storage quota (`storage` of /usage).',
  },
  INVALID_REQUEST: { status: 400, retryable: false, message: 'The request is not valid.' },
  UNKNOWN_MODEL: { status: 400, retryable: false, message: 'The model does not exist.' },
  UNSUPPORTED_PARAMETER: {
    status: 400,
    retryable: false,
    message: 'The model does not take this parameter.',
  },
  CONFLICTING_FIELDS: {
    status: 400,
    retryable: false,
    message: 'Two fields of the request contradict each other.',
  },
  INVALID_INPUT_URL: {
    status: 400,
    retryable: false,
    message: 'An input URL cannot be used.',
  },
  KEY_QUOTA_REACHED: {
    status: 400,
    retryable: false,
    message: 'The user already has the most API keys allowed. Revoke one first.',
  },
  NOT_FOUND: { status: 404, retryable: false, message: 'No such resource.' },
  JOB_NOT_FOUND: { status: 404, retryable: false, message: 'No such job.' },
  METHOD_NOT_ALLOWED: { status: 405, retryable: false, message: 'Method not allowed.' },
  MEDIA_DELETED: {
    status: 410,
    retryable: false,
    message: 'The media of this job were deleted by their owner.',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    retryable: true,
    message: 'The request took too long to arrive.',
  },
  JOB_ALREADY_DONE: { status: 409, retryable: false, message: 'The job has already ended.' },
  JOB_NOT_DONE: { status: 409, retryable: true, message: 'The job has not ended yet.' },
  KEY_ALREADY_CREATED: {
    status: 409,
    retryable: false,
    message: 'This Idempotency-Key has made an API key, whose secret was shown once.',
  },
  ANSWER_NOT_KEPT: {
    status: 409,
    retryable: false,
    message: 'The chat of this Idempotency-Key was charged, but its answer was not kept.',
  },
  JOB_RUNNING: {
    status: 409,
    retryable: false,
    message: 'The workflow of the job is running and settles the job itself.',
  },
  OUTCOME_UNDECIDED: {
    status: 409,
    retryable: true,
    message: 'The provider may still deliver, and the job cannot be continued.',
  },
  KEY_ALREADY_REPLACED: {
    status: 409,
    retryable: false,
    message: 'This API key has already been replaced by a rotation.',
  },
  REQUEST_IN_PROGRESS: {
    status: 409,
    retryable: true,
    message: 'A request with this Idempotency-Key is still being admitted. Try again.',
  },
  UPLOAD_IN_PROGRESS: {
    status: 409,
    retryable: true,
    message: 'The file of this URL is being sent by another request.',
  },
  ALREADY_UPLOADED: { status: 409, retryable: false, message: 'This object already exists.' },
  PAYLOAD_TOO_LARGE: { status: 413, retryable: false, message: 'The request body is too large.' },
  FILE_TOO_LARGE: { status: 413, retryable: false, message: 'The file is too large.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    retryable: false,
    message: 'The Content-Type of the request is not accepted here.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    retryable: false,
    message: 'This Idempotency-Key was used with another request.',
  },
  INSUFFICIENT_CREDITS: {
    status: 402,
    retryable: false,
    message: 'The organization does not have enough credits.',
  },
  KEY_LIMIT_EXCEEDED: {
    status: 402,
    retryable: false,
    message: 'The limit of this key leaves too little for this request.',
  },
  WINDOW_LIMIT_EXCEEDED: {
    status: 402,
    retryable: false,
    message: 'The request costs more than the organization may use in a whole six-hour window.',
  },
  'Rate limit exceeded. Please slow down.': {
    status: 429,
    retryable: true,
    message: 'Too many requests for this key in the last 60 seconds.',
  },
  TOO_MANY_ABANDONED_CHATS: {
    status: 429,
    retryable: true,
    message: 'Too many chats of this key were left before the provider reported their cost.',
  },
  WINDOW_EXHAUSTED: {
    status: 429,
    retryable: true,
    message: 'The six-hour usage window is exhausted.',
  },
  PROVIDER_REJECTED_INPUT: {
    status: 400,
    retryable: false,
    message: 'The provider did not accept the input.',
  },
  CONTENT_POLICY: {
    status: 400,
    retryable: false,
    message: 'The provider refused the input under its content policy.',
  },
  PROVIDER_ERROR: { status: 500, retryable: true, message: 'The provider failed.' },
  STORAGE_ERROR: { status: 500, retryable: true, message: 'The result could not be stored.' },
  DEADLINE_EXCEEDED: {
    status: 500,
    retryable: true,
    message: 'The provider did not finish before the deadline.',
  },
  OUTCOME_UNKNOWN: {
    status: 500,
    retryable: true,
    message: 'The provider never reported the outcome. Nothing was charged.',
  },
  CANCELED: { status: 409, retryable: false, message: 'The job was canceled.' },
  JOB_LOST: {
    status: 500,
    retryable: true,
    message: 'The job ended abnormally. Nothing was charged.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    retryable: true,
    message: 'The service cannot take this request right now. Try again.',
  },
  'Internal server error': {
    status: 500,
    retryable: true,
    message: 'Something went wrong on our side.',
  },
} as const satisfies Record<string, ErrorRow>;

/** A machine-readable error code of the table. */
export type ErrorCode = keyof typeof errorTable;

/** One thing wrong with a request: the field's path and what is allowed. */
export interface ErrorDetail {
  path: string;
  message: string;
}

interface GatewayErrorExtras {
  details?: ErrorDetail[] | undefined;
  /** Further fields of the HTTP body, e.g. `resetAt`. */
  body?: Record<string, unknown> | undefined;
  /** Seconds for the `Retry-After` header. */
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** An expected failure: a row of the error table with words for this case. */
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

/** A refusal of fields: the first of them is its message. */
export function refusedFields(code: ErrorCode, details: ErrorDetail[]): GatewayError {
  const [first] = details;
  return new GatewayError(code, first && `${first.path}: ${first.message}`, { details });
}

/** The refusal of one field of a request: where it stands, and what is allowed. */
export function fieldError(code: ErrorCode, path: string, message: string): GatewayError {
  return refusedFields(code, [{ path, message }]);
}

/** The refusal of several fields for one reason. */
export function fieldsError(
  code: ErrorCode,
  paths: readonly string[],
  message: string,
): GatewayError {
  return new GatewayError(code, message, { details: paths.map((path) => ({ path, message })) });
}

/** A broken promise between our own parts: always a programmer's error, always a 500. */
class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/**
 * States what must be true here.
 * @throws AssertionError when it is not.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
