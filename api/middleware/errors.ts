/**
 * Converts thrown errors to responses of the error table (spec §7). The endpoint decides the format
 * of the body: the service's own (spec §2.1), or the format of OpenAI or Anthropic with the
 * service's fields in addition.
 */
import { z } from 'zod';
import { GatewayError, type ErrorCode } from '../../domain/errors.ts';
import { createNearest } from '../../domain/field-messages.ts';
import { isDatabaseAway } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, Middleware } from '../context.ts';

/**
 * Error format of an endpoint: the service's own, or the one that clients of OpenAI or Anthropic
 * expect.
 */
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
export function openaiCodeOf({ code }: GatewayError): string {
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

/**
 * Makes an error body in OpenAI's format: `{"error": {message, type, code, param}, "message",
 * "requestId", …}`.
 */
export const openaiError: Shape = (error, requestId) => ({
  error: {
    message: error.message,
    type:
      openaiTypes[error.status] ?? (error.status < 500 ? 'invalid_request_error' : 'server_error'),
    code: openaiCodeOf(error),
    param: error.details?.[0]?.path ?? null,
  },
  message: error.message,
  requestId,
  ...(error.details && { details: error.details }),
  ...error.body,
});

/**
 * Makes an error body in Anthropic's format: `{"type": "error", "error": {type, message, code},
 * "request_id", …}`.
 */
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

/**
 * Makes an error body in the service's format. The body of a 401 is the same for every reason (spec
 * §5).
 */
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

const errorBodies: Readonly<Record<ErrorShape, Shape>> = {
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

/**
 * Makes the middleware that converts errors to responses; the response does not contain details of
 * an unexpected error. `paths` are those of all endpoints, for the error of an unknown path.
 */
export function errorAnswers(logger: Logger, paths: readonly string[]): Middleware {
  const nearest = createNearest(paths);
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) throw noRoute(ctx, nearest);
    } catch (error) {
      const gatewayError = gatewayErrorOf(error);
      if (gatewayError.status >= 500) {
        logger.error({ error, code: gatewayError.code }, 'request.failed');
      }
      respond(ctx, gatewayError);
    }
  };
}

/** Highest number of characters of the path in an error message. */
const shownPathMax = 100;

/**
 * Makes the error of a request without a route: the path is unknown, or does not support the
 * method.
 */
function noRoute(ctx: Context, nearest: (path: string) => string[]): GatewayError {
  // Router layers that are middleware have no methods.
  const methods = new Set(ctx.matched?.flatMap((layer) => layer.methods));
  if (methods.size === 0) {
    const path = ctx.originalUrl.replace(/\?.*$/s, '').slice(0, shownPathMax);
    const documents = 'GET /api/v1/openapi.json lists the endpoints';
    const [near] = nearest(ctx.path);
    const advice = near === undefined ? '' : ` did you mean ${near}?`;
    return new GatewayError(
      'NOT_FOUND',
      `${ctx.method} ${path} does not exist;${advice} ${documents}.`,
    );
  }
  ctx.set('Allow', [...methods].join(', '));
  return new GatewayError('METHOD_NOT_ALLOWED');
}

/** Returns the error of a response for any thrown error. */
export function gatewayErrorOf(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  if (isDatabaseAway(error)) {
    return new GatewayError('SERVICE_UNAVAILABLE', undefined, {
      retryAfterSeconds: 2,
      cause: error,
    });
  }
  return new GatewayError('Internal server error', undefined, { cause: error });
}

function respond(ctx: Context, error: GatewayError): void {
  ctx.status = error.status;
  if (error.retryAfterSeconds !== undefined)
    ctx.set('Retry-After', String(error.retryAfterSeconds));
  if (error.code === 'Unauthorized') ctx.set('WWW-Authenticate', 'Bearer');
  const { errorShape = 'service', requestId } = ctx.state;
  ctx.body = errorBodies[errorShape](error, requestId);
}
