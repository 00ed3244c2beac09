/** Errors for callers, made from failures of chat providers. */
import { GatewayError } from '../domain/errors.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';

/** Error of a provider; texts are empty if the provider sent none. */
interface ErrorReport {
  message: string;
  /** e.g. `context_length_exceeded` */
  code: string;
  /** Field that the provider rejected. */
  param: string;
  retryAfter: string | string[] | undefined;
}

/**
 * Names of accounts and keys, and addresses, which a provider's message must not show to callers.
 */
const secrets = /\b(?:org|proj|user|sk|key|req|request)[-_][\w-]{6,}\b|https?:\/\/\S+/gi;
const policyCodes = /content_?(?:policy|filter)|moderation|safety/i;
/** Messages about an input beyond the context, of providers without a code for it. */
const contextMessages =
  /prompt is too long|maximum context length|context (?:length|window)|input token count .* exceeds|too large for model/i;
const messageLengthMax = 300;

/** Failure after which the provider certainly bills nothing, so another model may be called. */
export class UnpaidFailure extends GatewayError {
  constructor(failure: GatewayError) {
    super(failure.code, failure.message, failure);
  }
}

/** Statuses sent by proxies in front of a provider, which may still process the request. */
const proxyStatuses: ReadonlySet<number> = new Set([408, 502, 504, 520, 521, 522, 523, 524]);

/** Marks the failure of a response as unbilled, unless a proxy may have sent the response. */
export function answeredFailure(status: number, failure: GatewayError): GatewayError {
  return proxyStatuses.has(status) ? failure : new UnpaidFailure(failure);
}

/** Makes the error for an error response of a provider, or for an error event of its stream. */
export function upstreamRefused(status: number, report: ErrorReport): GatewayError {
  const { message, code, param, retryAfter } = report;
  if ([400, 413, 422].includes(status)) {
    if (policyCodes.test(code)) return new GatewayError('CONTENT_POLICY');
    const isTooLong = code === 'context_length_exceeded' || contextMessages.test(message);
    const shown = message
      .replaceAll(secrets, '…')
      .replaceAll(/\s+/g, ' ')
      .slice(0, messageLengthMax);
    return new GatewayError(
      isTooLong ? 'CONTEXT_LENGTH_EXCEEDED' : 'PROVIDER_REJECTED_INPUT',
      shown === '' ? undefined : `The provider did not accept the input: ${shown}`,
      param === '' ? {} : { details: [{ path: param.slice(0, 100), message: code || 'invalid' }] },
    );
  }
  if ([429, 503, 529].includes(status)) {
    const waitMs = parseRetryAfter(retryAfter) ?? 2000;
    return new GatewayError('SERVICE_UNAVAILABLE', 'The provider of this model is busy.', {
      retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
    });
  }
  // 401, 403 and 404 concern the gateway's own key and model ids, which a caller cannot change.
  return new GatewayError('PROVIDER_ERROR', `The provider failed (${status}).`);
}

/** Makes the error for a response that ended early or cannot be parsed. */
export function upstreamBroke(cause: unknown): GatewayError {
  return new GatewayError('PROVIDER_ERROR', 'The provider ended its response unexpectedly.', {
    cause,
  });
}

/** Makes the error for a request without a response. */
export function upstreamUnreached(error: unknown): GatewayError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return new GatewayError('DEADLINE_EXCEEDED', 'The provider did not respond in time.', {
      cause: error,
    });
  }
  if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/.test(code)) {
    const away = 'The provider of this model cannot be reached.';
    return new UnpaidFailure(
      new GatewayError('SERVICE_UNAVAILABLE', away, { retryAfterSeconds: 2, cause: error }),
    );
  }
  return upstreamBroke(error);
}

/** Parses JSON of a provider. @throws GatewayError if it is not JSON */
export function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw upstreamBroke(error);
  }
}
