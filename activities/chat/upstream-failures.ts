/** What the failures of chat upstreams mean for the caller. Nobody was charged for any of these. */
import { GatewayError } from '../../domain/errors.ts';
import { parseRetryAfter } from '../providers/provider-http.ts';

/** An upstream's words about a refusal; empty where it said nothing. */
interface Words {
  message: string;
  /** e.g. `context_length_exceeded` */
  code: string;
  /** The field that the upstream complains about. */
  param: string;
  retryAfter: string | string[] | undefined;
}

/** What a provider says about an input can name its own accounts and keys. */
const secrets = /\b(?:org|proj|user|sk|key|req|request)[-_][\w-]{6,}\b|https?:\/\/\S+/gi;
const policyCodes = /content_?(?:policy|filter)|moderation|safety/i;
const wordsLengthMax = 300;

/** A failure after which certainly nobody is paid: another model may be asked. */
export class UnpaidFailure extends GatewayError {
  constructor(failure: GatewayError) {
    super(failure.code, failure.message, failure);
  }
}

/** Said by what stands before an upstream, which may be at work all the same. */
const saidByProxies: ReadonlySet<number> = new Set([408, 502, 504, 520, 521, 522, 523, 524]);

/** The failure that an answer of this status is. */
export function answeredFailure(status: number, failure: GatewayError): GatewayError {
  return saidByProxies.has(status) ? failure : new UnpaidFailure(failure);
}

/** An upstream that answered with an error, or sent one in its stream. */
export function upstreamRefused(status: number, words: Words): GatewayError {
  const { message, code, param, retryAfter } = words;
  if ([400, 413, 422].includes(status)) {
    if (policyCodes.test(code)) return new GatewayError('CONTENT_POLICY');
    const shown = message.replaceAll(secrets, '…').replaceAll(/\s+/g, ' ').slice(0, wordsLengthMax);
    return new GatewayError(
      'PROVIDER_REJECTED_INPUT',
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
  // 401, 403 and 404 are about our own key and model ids; the caller can do nothing about them.
  return new GatewayError('PROVIDER_ERROR', `The provider failed (${status}).`);
}

/** An upstream that broke off, or whose answer makes no sense. */
export function upstreamBroke(cause: unknown): GatewayError {
  return new GatewayError('PROVIDER_ERROR', 'The provider ended its response unexpectedly.', {
    cause,
  });
}

/** A request that got no answer. */
export function upstreamUnreached(error: unknown): GatewayError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return new GatewayError('DEADLINE_EXCEEDED', 'The provider did not answer in time.', {
      cause: error,
    });
  }
  if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/.test(code)) {
    const away = 'The provider of this model is away.';
    return new UnpaidFailure(
      new GatewayError('SERVICE_UNAVAILABLE', away, { retryAfterSeconds: 2, cause: error }),
    );
  }
  return upstreamBroke(error);
}
