/** Turns whatever was thrown into an answer of the error table (spec §7). */
import type { Middleware } from 'koa';
import { BackendTerminatedError, ConnectionError, StatementTimeoutError } from 'slonik';
import { GatewayError } from '../../domain/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, RequestState } from '../context.ts';

/** See the file's head. Nothing of an unexpected error is shown. */
export function errorAnswers(logger: Logger): Middleware<RequestState> {
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) throw new GatewayError('NOT_FOUND');
    } catch (error) {
      const known = error instanceof GatewayError ? error : translate(error);
      if (known.status >= 500) {
        logger.error({ error, code: known.code }, 'request.failed');
      }
      answer(ctx, known);
    }
  };
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

function isDatabaseAway(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true;
  if (error instanceof StatementTimeoutError) return true;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  // Class 57P: shutting down or starting up; class 53: out of connections, memory or disk.
  return code === 'ECONNREFUSED' || code === 'ECONNRESET' || /^(57P|53)/.test(code);
}

function answer(ctx: Context, error: GatewayError): void {
  ctx.status = error.status;
  if (error.retryAfterSeconds !== undefined)
    ctx.set('Retry-After', String(error.retryAfterSeconds));
  if (error.code === 'Unauthorized') ctx.set('WWW-Authenticate', 'Bearer');
  // Every reason for a 401 gives the same bytes (spec §5).
  ctx.body =
    error.code === 'Unauthorized'
      ? { error: 'Unauthorized' }
      : {
          error: error.code,
          message: error.message,
          requestId: ctx.state.requestId,
          ...(error.details && { details: error.details }),
          ...error.body,
        };
}
