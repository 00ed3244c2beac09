/** Converts failures of chat providers to errors for callers. */
import { GatewayError } from '../domain/errors.ts';
import { asRecord, asText, isRecord } from '../domain/json.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';
import { findUnsentCode } from '../platform/connections.ts';

/** Error that a provider reported. A field is empty if the provider did not send it. */
interface ErrorReport {
  message: string;
  /** Error codes and types, e.g. `context_length_exceeded` and `invalid_request_error`. */
  codes: readonly string[];
  /** Field that the provider rejected. */
  param: string;
}

/** Pattern of the account ids, keys and URLs that are removed from messages to callers. */
const secrets = /\b(?:org|proj|user|sk|key|req|request)[-_][\w-]{6,}\b|https?:\/\/\S+/gi;
const policyCodes =
  /content_?(?:policy|filter)|moderation|safety|data_?inspection|prohibited_?content|responsible_?ai/i;
const contextCodes =
  /context_?(?:length|window)|(?:prompt|input|string).{0,40}too_?long|above_max_length/i;
/** Pattern of messages about an input that is too long, for providers without an error code. */
const contextMessages =
  /prompt is too long|maximum context length|context (?:length|window)|input token count .{0,40} exceeds|too large for model/i;
const messageLengthMax = 300;

/** Failure that the provider certainly does not bill, so that another model may be called. */
export class UnbilledFailure extends GatewayError {
  constructor(failure: GatewayError) {
    super(failure.code, failure.message, failure);
  }
}

/** Statuses sent by proxies in front of a provider, which may still process the request. */
const proxyStatuses: ReadonlySet<number> = new Set([408, 502, 504, 520, 521, 522, 523, 524]);

/** Marks the failure as unbilled, unless a proxy may have sent the response. */
export function markUnbilled(status: number, failure: GatewayError): GatewayError {
  return proxyStatuses.has(status) ? failure : new UnbilledFailure(failure);
}

/** Statuses of the errors that providers report with status 200, by patterns of busy providers' texts. */
const busyTexts: readonly (readonly [RegExp, number])[] = [
  [/overload|unavailable|capacity|busy/i, 503],
  [/rate[\W_]?limit|exhausted|too[\W_]?many|throttl|quota|concurren/i, 429],
];
/** Statuses of the errors that providers report with status 200, by patterns of their codes. */
const statusesByCode: typeof busyTexts = [
  [contextCodes, 400],
  [policyCodes, 400],
  ...busyTexts,
  [/auth|api_?key|permission|forbidden|billing|payment|balance|not_?found/i, 403],
  [/timeout|timed_?out|deadline/i, 504],
  [/invalid|too_?large|bad_?request|unsupported|unprocessable|precondition|validation/i, 400],
];

/** Parses the error that a provider reports, in OpenAI's, Anthropic's or a similar format. */
function parseErrorReport(body: unknown): ErrorReport {
  const record = asRecord(Array.isArray(body) ? body[0] : body);
  const error = isRecord(record['error']) ? record['error'] : record;
  const { code, type, status, message, detail, param } = error;
  return {
    message: asText(message) || asText(record['error']) || asText(detail),
    codes: [code, type, status, record['code'], record['status']]
      .filter((name) => typeof name === 'string' || typeof name === 'number')
      .map(String)
      .filter((name) => name !== '' && name !== 'error'),
    param: asText(param),
  };
}

/** Converts a provider's error response to a GatewayError. */
export function errorFromResponse(
  status: number,
  { body, retryAfter }: { body: unknown; retryAfter: string | string[] | undefined },
): GatewayError {
  return convertReport(status, parseErrorReport(body), retryAfter);
}

/**
 * Converts an error that a provider reports with status 200 to a GatewayError. The status in the
 * report decides; without one, its codes; without them, its message.
 */
export function errorFromEvent(body: unknown): GatewayError {
  const report = parseErrorReport(body);
  const { codes, message } = report;
  const sentStatus = codes.find((code) => /^[45]\d\d$/.test(code));
  const [, status = 500] =
    statusesByCode.find(([pattern]) => codes.some((code) => pattern.test(code))) ??
    (contextMessages.test(message) ? [contextMessages, 400] : undefined) ??
    busyTexts.find(([pattern]) => pattern.test(message)) ??
    [];
  return convertReport(sentStatus === undefined ? status : Number(sentStatus), report);
}

function convertReport(
  status: number,
  { message, codes, param }: ErrorReport,
  retryAfter?: string | string[],
): GatewayError {
  if ([400, 413, 422].includes(status)) {
    if (codes.some((code) => policyCodes.test(code))) return new GatewayError('CONTENT_POLICY');
    const isTooLong =
      codes.some((code) => contextCodes.test(code)) || contextMessages.test(message);
    const [code = 'invalid'] = codes;
    const safeMessage = message
      .replaceAll(secrets, '…')
      .replaceAll(/\s+/g, ' ')
      .slice(0, messageLengthMax);
    return new GatewayError(
      isTooLong ? 'CONTEXT_LENGTH_EXCEEDED' : 'PROVIDER_REJECTED_INPUT',
      safeMessage === '' ? undefined : `The provider rejected the input: ${safeMessage}`,
      param === '' ? {} : { details: [{ path: param.slice(0, 100), message: code }] },
    );
  }
  if ([429, 503, 529].includes(status)) {
    const waitMs = parseRetryAfter(retryAfter) ?? 2000;
    return new GatewayError('SERVICE_UNAVAILABLE', 'The provider of this model is busy.', {
      retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
    });
  }
  // 401, 403 and 404 concern the gateway's API key and model ids, not the request.
  return new GatewayError('PROVIDER_ERROR', `The provider failed (${status}).`);
}

/** Creates the error for a response that ended early, is too long, or cannot be parsed. */
export function invalidResponseError(cause: unknown): GatewayError {
  return new GatewayError('PROVIDER_ERROR', "The provider's response was incomplete or invalid.", {
    cause,
  });
}

/** Creates the error for a provider that takes longer than a time limit. */
export function providerTimeout(cause?: unknown): GatewayError {
  return new GatewayError('DEADLINE_EXCEEDED', 'The provider did not respond in time.', { cause });
}

/** Converts a network error (no connection, a timeout or a broken connection) to a GatewayError. */
export function networkFailure(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return providerTimeout(error);
  }
  if (findUnsentCode(error) !== null) {
    const message = 'The provider of this model cannot be reached.';
    return new UnbilledFailure(
      new GatewayError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds: 2, cause: error }),
    );
  }
  return invalidResponseError(error);
}

/** Parses a provider's response. @throws GatewayError PROVIDER_ERROR if it is not JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalidResponseError(error);
  }
}
