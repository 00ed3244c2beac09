/** Converts failures of chat providers to errors for callers. */
import { GatewayError } from '../domain/errors.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';
import { findUnsentCode } from '../providers/provider-http.ts';

/** Error that a provider reported. A field is empty if the provider did not send it. */
interface ErrorReport {
  message: string;
  /** Error code of the provider, e.g. `context_length_exceeded`. */
  code: string;
  /** Field that the provider rejected. */
  param: string;
  retryAfter: string | string[] | undefined;
}

/** Pattern of the account ids, keys and URLs that are removed from messages to callers. */
const secrets = /\b(?:org|proj|user|sk|key|req|request)[-_][\w-]{6,}\b|https?:\/\/\S+/gi;
const policyCodes = /content_?(?:policy|filter)|moderation|safety/i;
/** Pattern of messages about an input that is too long, for providers without an error code. */
const contextMessages =
  /prompt is too long|maximum context length|context (?:length|window)|input token count .* exceeds|too large for model/i;
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

/** Converts a provider's error response, or the error event of its stream, to a GatewayError. */
export function errorFromReport(status: number, report: ErrorReport): GatewayError {
  const { message, code, param, retryAfter } = report;
  if ([400, 413, 422].includes(status)) {
    if (policyCodes.test(code)) return new GatewayError('CONTENT_POLICY');
    const isTooLong = code === 'context_length_exceeded' || contextMessages.test(message);
    const safeMessage = message
      .replaceAll(secrets, '…')
      .replaceAll(/\s+/g, ' ')
      .slice(0, messageLengthMax);
    return new GatewayError(
      isTooLong ? 'CONTEXT_LENGTH_EXCEEDED' : 'PROVIDER_REJECTED_INPUT',
      safeMessage === '' ? undefined : `The provider rejected the input: ${safeMessage}`,
      param === '' ? {} : { details: [{ path: param.slice(0, 100), message: code || 'invalid' }] },
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

/** Converts a network error (no connection, a timeout or a broken connection) to a GatewayError. */
export function networkFailure(error: unknown): GatewayError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return new GatewayError('DEADLINE_EXCEEDED', 'The provider did not respond in time.', {
      cause: error,
    });
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
