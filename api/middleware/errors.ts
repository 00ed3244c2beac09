/** Converts thrown errors to responses of the error table (spec §7). */
import { ServiceError } from '@temporalio/client';
import { GatewayError } from '../../domain/errors.ts';
import { createNearest } from '../../domain/field-messages.ts';
import { isDatabaseAway } from '../../platform/database-errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, Middleware } from '../context.ts';
import { errorBodies } from '../http/error-bodies.ts';

/**
 * Makes the middleware that converts errors to responses; the response does not contain details of
 * an unexpected error. `paths` are those of all endpoints, for the error of an unknown path.
 */
export function errorAnswers(logger: Logger, paths: readonly string[]): Middleware {
  const nearest = createNearest(paths);
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) throw makeRouteError(ctx, nearest);
    } catch (error) {
      const gatewayError = toGatewayError(error);
      if (gatewayError.status >= 500) {
        logger.error({ error, code: gatewayError.code }, 'request.failed');
      }
      respond(ctx, gatewayError);
    }
  };
}

const shownPathMax = 100;

/** Makes the error for an unknown path, or a method that the path does not support. */
function makeRouteError(ctx: Context, nearest: (path: string) => string[]): GatewayError {
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
export function toGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  if (isDatabaseAway(error) || error instanceof ServiceError) {
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
