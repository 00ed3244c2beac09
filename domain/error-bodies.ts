/** Bodies of error responses in the gateway's own format (spec §2.1), OpenAI's or Anthropic's. */
import { z } from 'zod';
import { errorTable, type GatewayError, type ErrorCode } from './errors.ts';

/** Format of an endpoint's errors: the gateway's own (`service`), OpenAI's or Anthropic's. */
export type ErrorFormat = 'service' | 'openai' | 'anthropic';

/**
 * Returns the HTTP status of an error. OpenAI's and Anthropic's clients expect 404 for an unknown
 * model, on which programs choose another one; the specification (§7) has 400.
 */
export function getStatus(code: ErrorCode, format: ErrorFormat): number {
  return code === 'UNKNOWN_MODEL' && format !== 'service' ? 404 : errorTable[code].status;
}

type FormatError = (error: GatewayError, requestId: string) => Record<string, unknown>;

/** OpenAI's error types by HTTP status. */
const openaiTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  429: 'rate_limit_error',
};

/** Error codes of OpenAI's API, keyed by the gateway's error code that each one replaces. */
const openaiCodes: Partial<Record<ErrorCode, string>> = {
  CONTEXT_LENGTH_EXCEEDED: 'context_length_exceeded',
  INSUFFICIENT_CREDITS: 'insufficient_quota',
  KEY_LIMIT_EXCEEDED: 'insufficient_quota',
  END_USER_LIMIT_EXCEEDED: 'insufficient_quota',
  Unauthorized: 'invalid_api_key',
  UNKNOWN_MODEL: 'model_not_found',
  'Rate limit exceeded. Please slow down.': 'rate_limit_exceeded',
};

/** Returns the code of an error in OpenAI's format. */
export function toOpenaiCode({ code, providerCode }: GatewayError): string {
  return openaiCodes[code] ?? providerCode ?? code;
}

/** Anthropic's error types by HTTP status. */
const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
};

/**
 * Builds an OpenAI-style error body, plus the gateway's fields `message`, `requestId` and
 * `details`.
 */
export const formatOpenaiError: FormatError = (error, requestId) => ({
  error: {
    message: error.message,
    type:
      openaiTypes[error.status] ?? (error.status < 500 ? 'invalid_request_error' : 'server_error'),
    code: toOpenaiCode(error),
    param: error.details?.[0]?.path ?? null,
  },
  message: error.message,
  requestId,
  ...(error.details && { details: error.details }),
  ...error.body,
});

/** Builds an Anthropic-style error body, plus the gateway's fields `code` and `details`. */
export const formatAnthropicError: FormatError = (error, requestId) => ({
  type: 'error',
  error: {
    type:
      anthropicTypes[getStatus(error.code, 'anthropic')] ??
      (error.status < 500 ? 'invalid_request_error' : 'api_error'),
    message: error.message,
    code: error.code,
  },
  request_id: requestId,
  ...(error.details && { details: error.details }),
  ...error.body,
});

/**
 * Builds an error body in the gateway's own format. All 401 responses have the same body (spec §5).
 */
const formatServiceError: FormatError = (error, requestId) =>
  error.code === 'Unauthorized'
    ? { error: 'Unauthorized' }
    : {
        error: error.code,
        message: error.message,
        requestId,
        ...(error.details && { details: error.details }),
        ...error.body,
      };

/** Functions that build the body of an error response, by format. */
export const errorFormatters: Readonly<Record<ErrorFormat, FormatError>> = {
  service: formatServiceError,
  openai: formatOpenaiError,
  anthropic: formatAnthropicError,
};

const details = z.array(z.object({ path: z.string(), message: z.string() })).optional();

/** OpenAPI schemas of error bodies, by format. */
export const errorSchemas: Readonly<Record<ErrorFormat, z.ZodType>> = {
  service: z
    .looseObject({
      error: z.string(),
      message: z.string().optional(),
      requestId: z.string().optional(),
      details,
    })
    .meta({
      id: 'Error',
      description:
        'Error: `error` is a machine-readable code, `message` explains it, `details` lists the invalid fields.',
    }),
  openai: z
    .looseObject({
      error: z.object({
        message: z.string(),
        type: z.string(),
        code: z.string(),
        param: z.string().nullable(),
      }),
      message: z.string(),
      requestId: z.string(),
      details,
    })
    .meta({
      id: 'OpenAIError',
      description:
        'Error in OpenAI’s format. `code` is OpenAI’s code for errors that its clients handle, otherwise the gateway’s code.',
    }),
  anthropic: z
    .looseObject({
      type: z.literal('error'),
      error: z.object({ type: z.string(), message: z.string(), code: z.string() }),
      request_id: z.string(),
      details,
    })
    .meta({
      id: 'AnthropicError',
      description: 'Error in Anthropic’s format. `code` is the gateway’s error code.',
    }),
};
