/**
 * Errors as responses of the error table (spec §7), in the shape of the endpoint: the service's own
 * (spec §2.1), or the shapes of OpenAI and Anthropic with the service's fields added.
 */
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { isDatabaseAway } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, Middleware } from '../context.ts';

/** Clients for which an endpoint shapes its errors. */
export type ErrorShape = 'service' | 'openai' | 'anthropic';

type Shape = (error: GatewayError, requestId: string) => Record<string, unknown>;

/** OpenAI's error types by status. */
const openaiTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  429: 'rate_limit_error',
};

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

/** Makes OpenAI's shape: `{"error": {message, type, code, param}, "message", "requestId", …}`. */
export const openaiError: Shape = (error, requestId) => ({
  error: {
    message: error.message,
    type:
      openaiTypes[error.status] ?? (error.status < 500 ? 'invalid_request_error' : 'server_error'),
    code: error.code,
    param: error.details?.[0]?.path ?? null,
  },
  message: error.message,
  requestId,
  ...(error.details && { details: error.details }),
  ...error.body,
});

/**
 * Makes Anthropic's shape: `{"type": "error", "error": {type, message, code}, "request_id", …}`.
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

/** Body of a 401, which is the same for every reason (spec §5). */
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

/** Schemas of the error body in each shape. */
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
    .meta({ id: 'OpenAIError', description: 'In OpenAI’s shape; `code` is ours.' }),
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
 * Makes the middleware that turns errors into responses; details of an unexpected error are not
 * shown.
 */
export function errorAnswers(logger: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) throw unanswered(ctx);
    } catch (error) {
      const known = error instanceof GatewayError ? error : translate(error);
      if (known.status >= 500) {
        logger.error({ error, code: known.code }, 'request.failed');
      }
      answer(ctx, known);
    }
  };
}

/** Characters of a path that an error repeats. */
const shownPathMax = 100;

/**
 * Makes the error of a request without a route: its path is unknown, or allows other methods only.
 */
function unanswered(ctx: Context): GatewayError {
  // Layers of middleware have no methods.
  const methods = new Set(ctx.matched?.flatMap((layer) => layer.methods));
  if (methods.size === 0) {
    const path = ctx.originalUrl.replace(/\?.*$/s, '').slice(0, shownPathMax);
    const documents = 'GET /api/v1/openapi.json lists the endpoints';
    return new GatewayError('NOT_FOUND', `${ctx.method} ${path} does not exist; ${documents}.`);
  }
  ctx.set('Allow', [...methods].join(', '));
  return new GatewayError('METHOD_NOT_ALLOWED');
}

function translate(error: unknown): GatewayError {
  if (isDatabaseAway(error)) {
    return new GatewayError('SERVICE_UNAVAILABLE', undefined, {
      retryAfterSeconds: 2,
      cause: error,
    });
  }
  return new GatewayError('Internal server error', undefined, { cause: error });
}

function answer(ctx: Context, error: GatewayError): void {
  ctx.status = error.status;
  if (error.retryAfterSeconds !== undefined)
    ctx.set('Retry-After', String(error.retryAfterSeconds));
  if (error.code === 'Unauthorized') ctx.set('WWW-Authenticate', 'Bearer');
  const { errorShape = 'service', requestId } = ctx.state;
  ctx.body = errorBodies[errorShape](error, requestId);
}
