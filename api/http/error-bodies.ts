/** Bodies of error responses in the format of the service (spec §2.1), OpenAI or Anthropic. */
import { z } from 'zod';
import type { GatewayError, ErrorCode } from '../../domain/errors.ts';

/** Error format of an endpoint: the service's own, or that of OpenAI or Anthropic. */
export type ErrorShape = 'service' | 'openai' | 'anthropic';

type Shape = (error: GatewayError, requestId: string) => Record<string, unknown>;

/** OpenAI's error types by status. */
const openaiTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  429: 'rate_limit_error',
};

/** Codes on which OpenAI's clients act, in place of ours. */
const openaiCodes: Partial<Record<ErrorCode, string>> = {
  CONTEXT_LENGTH_EXCEEDED: 'context_length_exceeded',
  INSUFFICIENT_CREDITS: 'insufficient_quota',
  KEY_LIMIT_EXCEEDED: 'insufficient_quota',
  'Rate limit exceeded. Please slow down.': 'rate_limit_exceeded',
};

/** Returns the code of an error in OpenAI's format. */
export function toOpenaiCode({ code }: GatewayError): string {
  return openaiCodes[code] ?? code;
}

/** Anthropic's error types by status. */
const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
};

/** Makes an error body in OpenAI's format, with the service's fields. */
export const openaiError: Shape = (error, requestId) => ({
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

/** Makes an error body in Anthropic's format, with the service's fields. */
export const anthropicError: Shape = (error, requestId) => ({
  type: 'error',
  error: {
    type:
      anthropicTypes[error.status] ?? (error.status < 500 ? 'invalid_request_error' : 'api_error'),
    message: error.message,
    code: error.code,
  },
  request_id: requestId,
  ...(error.details && { details: error.details }),
  ...error.body,
});

/** Makes an error body of the service. All 401 have the same body (spec §5). */
const serviceError: Shape = (error, requestId) =>
  error.code === 'Unauthorized'
    ? { error: 'Unauthorized' }
    : {
        error: error.code,
        message: error.message,
        requestId,
        ...(error.details && { details: error.details }),
        ...error.body,
      };

/** Makes the body of an error response, by format. */
export const errorBodies: Readonly<Record<ErrorShape, Shape>> = {
  service: serviceError,
  openai: openaiError,
  anthropic: anthropicError,
};

const details = z.array(z.object({ path: z.string(), message: z.string() })).optional();

/** Schemas of error bodies by format, for the OpenAPI documents. */
export const errorSchemas: Readonly<Record<ErrorShape, z.ZodType>> = {
  service: z
    .looseObject({
      error: z.string(),
      message: z.string().optional(),
      requestId: z.string().optional(),
      details,
    })
    .meta({
      id: 'Error',
      description: 'Machine-readable code, detail for people, fields at fault.',
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
        'In OpenAI’s shape; `code` is OpenAI’s for errors on which its clients act, else ours.',
    }),
  anthropic: z
    .looseObject({
      type: z.literal('error'),
      error: z.object({ type: z.string(), message: z.string(), code: z.string() }),
      request_id: z.string(),
      details,
    })
    .meta({ id: 'AnthropicError', description: 'In Anthropic’s shape; `code` is ours.' }),
};
