/**
 * Gives every request an id, which every line about it carries, and logs it: method, route, status, ids,
 * time; never bodies or queries.
 */
import { newId } from '../../domain/ids.ts';
import { withCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import { routeOf, type Context, type Middleware } from '../context.ts';

/** An id of the caller's is kept only in this form. */
const foreignId = /^[A-Za-z0-9-]{8,64}$/;

/** See the file's head. */
export function requestLog(logger: Logger): Middleware {
  return async (ctx, next) => {
    const given = ctx.headers['x-request-id'];
    ctx.state.requestId =
      typeof given === 'string' && foreignId.test(given) ? given : newId('request');
    ctx.set('X-Request-Id', ctx.state.requestId);
    await withCorrelation({ requestId: ctx.state.requestId }, () => logged(logger, ctx, next));
  };
}

async function logged(logger: Logger, ctx: Context, next: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  await next();
  logger.info(
    {
      method: ctx.method,
      route: routeOf(ctx),
      status: ctx.status,
      organizationId: ctx.state.caller?.organizationId,
      keyId: ctx.state.caller?.keyId,
      operatorId: ctx.state.operator?.operatorId ?? undefined,
      tookMs: Math.round((performance.now() - startedAt) * 10) / 10,
    },
    'request.answered',
  );
}
