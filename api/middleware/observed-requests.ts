/**
 * Log lines, metrics and spans of requests: an id and a line of the log (method, route, status,
 * ids, time; never bodies or queries), counts, times and a span. They name the route pattern,
 * because paths contain ids.
 */
import { propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { newId } from '../../domain/ids.ts';
import { withCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import { inSpan, type Telemetry } from '../../platform/telemetry.ts';
import { routeOf, type Context, type Middleware } from '../context.ts';

/** Pattern of a request id of the caller; others are replaced. */
const foreignId = /^[A-Za-z0-9-]{8,64}$/;

/** Gives a request its id, which all its log lines contain, and logs it. */
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

/** Methods that are labels in metrics; all others have one common label. */
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);

/** Counts, times and traces requests. */
export function observedRequests({ metrics }: Pick<Telemetry, 'metrics'>): Middleware {
  function count(ctx: Context, startedAtMs: number): void {
    const method = methods.has(ctx.method) ? ctx.method : 'other';
    const route = routeOf(ctx);
    metrics.requests.inc({ method, route, status: String(ctx.status) });
    metrics.requestSeconds.observe({ method, route }, (performance.now() - startedAtMs) / 1000);
  }
  return async (ctx, next) => {
    const startedAtMs = performance.now();
    metrics.requestsInFlight.inc();
    try {
      await inSpan(
        {
          name: ctx.method,
          kind: SpanKind.SERVER,
          // `tracestate` is left out, because a caller's text must not be stored in histories.
          parent: propagation.extract(ROOT_CONTEXT, { traceparent: ctx.headers['traceparent'] }),
          attributes: { 'request.id': ctx.state.requestId, 'http.request.method': ctx.method },
        },
        async (span) => {
          await next();
          const route = routeOf(ctx);
          span.updateName(`${ctx.method} ${route}`);
          span.setAttributes({ 'http.route': route, 'http.response.status_code': ctx.status });
          if (ctx.status >= 500)
            span.setStatus({ code: SpanStatusCode.ERROR, message: String(ctx.status) });
        },
      );
    } finally {
      metrics.requestsInFlight.dec();
      count(ctx, startedAtMs);
    }
  };
}
