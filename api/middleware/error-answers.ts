/** Turns whatever was thrown into an answer of the error table (spec §7). */
import { GatewayError } from '../../domain/errors.ts';
import { isDatabaseAway } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, Middleware } from '../context.ts';
import { errorBodies } from './error-shapes.ts';

/** See the file's head. Nothing of an unexpected error is shown. */
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

/** No route took the request: its path is unknown, or known for other methods only. */
function unanswered(ctx: Context): GatewayError {
  const layers: unknown[] = ctx.matched ?? [];
  const methods = new Set(layers.flatMap(methodsOf));
  if (methods.size === 0) return new GatewayError('NOT_FOUND');
  ctx.set('Allow', [...methods].join(', '));
  return new GatewayError('METHOD_NOT_ALLOWED');
}

/** Of a layer that matched the path; middleware has none. */
function methodsOf(layer: unknown): string[] {
  if (typeof layer !== 'object' || layer === null || !('methods' in layer)) return [];
  return Array.isArray(layer.methods) ? layer.methods.map(String) : [];
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
