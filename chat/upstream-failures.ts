/** Converts failures of chat providers to errors for callers. */
import { GatewayError } from '../domain/errors.ts';
import { parseExact } from '../domain/exact-numbers.ts';
import { asRecord, asText, isRecord } from '../domain/json.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';
import { findUnsentCode } from '../platform/connector.ts';

/** Error that a provider reported. A field is empty if the provider did not send it. */
interface ErrorReport {
  message: string;
  /** Error codes and types, e.g. `context_length_exceeded` and `invalid_request_error`. */
  codes: readonly string[];
  /** The code alone, if it is a name. */
  code: string;
  /** Field that the provider rejected. */
  param: string;
  /** Tokens of a prompt that is too long, if the provider reports them as numbers. */
  tokens?: TokenCounts;
}

/** Pattern of the account ids, keys and URLs that are removed from messages to callers. */
const secrets = /\b(?:org|proj|user|sk|key|req|request)[-_][\w-]{6,}\b|https?:\/\/\S+/gi;
const policyCodes =
  /content_?(?:policy|filter)|moderation|safety|data_?inspection|prohibited_?content|responsible_?ai/i;
const contextCodes =
  /context_?(?:length|window|size)|(?:prompt|input|string).{0,40}too_?long|above_max_length/i;
/** Pattern of messages about an input that is too long, for providers without an error code. */
const contextMessages =
  /prompt (?:is )?too long|prompt exceeds max|maximum (?:prompt|context|allowed input) length|context (?:length|window|size|limit)|input token count .{0,40} exceeds|too large for model|model token limit|reduce the length of the messages|range of input length/i;
/** Pattern of codes and messages about a limit of tokens per time, which other limits resemble. */
const rateLimits = /rate_?limit|tokens per (?:minute|hour|day)|\bTP[MD]\b/i;
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
  const { code, type, status, message, detail, param, n_ctx: max, n_prompt_tokens: sent } = error;
  return {
    code: /^[a-z]\w*$/i.test(asText(code)) ? asText(code) : '',
    // llama.cpp
    ...(typeof max === 'number' && {
      tokens: { max, sent: typeof sent === 'number' ? sent : undefined },
    }),
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
  report: ErrorReport,
  retryAfter?: string | string[],
): GatewayError {
  const isRejection = [400, 413, 422].includes(status);
  const isRateLimit = [...report.codes, report.message].some((text) => rateLimits.test(text));
  if (isRejection && !isRateLimit) return convertRejection(report);
  if (isRejection || [429, 503, 529].includes(status)) {
    const waitMs = parseRetryAfter(retryAfter) ?? 2000;
    return new GatewayError('SERVICE_UNAVAILABLE', 'The provider of this model is busy.', {
      retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
    });
  }
  // 401, 403 and 404 concern the gateway's API key and model ids, not the request.
  return new GatewayError('PROVIDER_ERROR', `The provider failed (${status}).`);
}

/** Converts a report that the provider rejected the input. */
function convertRejection({ message, codes, code, param, tokens }: ErrorReport): GatewayError {
  if (codes.some((name) => policyCodes.test(name))) return new GatewayError('CONTENT_POLICY');
  const safeMessage = message
    .replaceAll(secrets, '…')
    .replaceAll(/\s+/g, ' ')
    .slice(0, messageLengthMax);
  const rejection = safeMessage && `The provider rejected the input: ${safeMessage}`;
  if (codes.some((name) => contextCodes.test(name)) || contextMessages.test(message)) {
    const counts = tokens ?? findTokenCounts(message);
    return new GatewayError(
      'CONTEXT_LENGTH_EXCEEDED',
      [describeLongPrompt(counts), rejection].filter(Boolean).join(' '),
    );
  }
  const detail = { path: param.slice(0, 100), message: safeMessage || code || 'is invalid' };
  return new GatewayError('PROVIDER_REJECTED_INPUT', rejection || undefined, {
    ...(param !== '' && { details: [detail] }),
    ...(code !== '' && { providerCode: code.slice(0, 100) }),
  });
}

/** Number of tokens of a prompt, and the most that the model takes. */
interface TokenCounts {
  sent?: number | undefined;
  max: number;
}

/**
 * Describes a prompt that is too long in the words of Anthropic's API, by which agents recognize
 * that they must shorten the conversation.
 */
export function describeLongPrompt(counts: TokenCounts | undefined, isMinimum = false): string {
  if (!counts) return 'prompt is too long.';
  const { sent, max } = counts;
  if (sent === undefined) return `prompt is too long: more than ${max} tokens, the maximum.`;
  return `prompt is too long: ${isMinimum ? 'at least ' : ''}${sent} tokens > ${max} maximum.`;
}

/** Limit of tokens in the texts of providers. */
const limitPattern =
  /(?:> |\bmax(?:imum)?\b[^\d]{0,40}|model with |limit:? |context (?:length|size)[^\d]{0,12})(\d[\d,]{2,12})/i;

/** Returns the token counts in a provider's text; undefined if it has none. */
function findTokenCounts(message: string): TokenCounts | undefined {
  const counts = [...message.matchAll(/\d[\d,]{2,12}/g)].map(([text]) => parseCount(text));
  // Anthropic: `input length and max_tokens exceed context limit: 190000 + 20000 > 200000`.
  const [, input = '', output = '', limit = ''] =
    /(\d{1,12}) \+ (\d{1,12}) > (\d{1,12})/.exec(message) ?? [];
  if (limit !== '') return { sent: parseCount(input) + parseCount(output), max: parseCount(limit) };
  const max = parseCount(limitPattern.exec(message)?.[1] ?? '');
  if (max === 0) return undefined;
  const largest = Math.max(...counts);
  return { max, sent: largest > max ? largest : undefined };
}

const parseCount = (text: string): number => Number(text.replaceAll(',', ''));

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

/** Fields of tool calls whose numbers keep their digits. */
const callFields: ReadonlySet<string> = new Set(['input', 'arguments']);

/** Parses a provider's response. @throws GatewayError PROVIDER_ERROR if it is not JSON */
export function parseJson(text: string): unknown {
  try {
    const hasCalls = text.includes('"input"') || text.includes('"arguments"');
    return hasCalls ? parseExact(text, callFields) : JSON.parse(text);
  } catch (error) {
    throw invalidResponseError(error);
  }
}
