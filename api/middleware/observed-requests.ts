/**
 * Logs, metrics and traces of requests: each request has an id, one log line (method, route,
 * status, ids, duration; never bodies or queries), metrics and a span. Metrics and logs use the
 * route pattern, because paths contain ids.
 */
import { propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { newId } from '../../domain/ids.ts';
import { withCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import { inSpan, type Telemetry } from '../../platform/telemetry.ts';
import { routeOf, type Context, type Middleware } from '../context.ts';

/** Pattern of an `X-Request-Id` that is accepted from a client. */
const clientRequestId = /^[A-Za-z0-9-]{8,64}$/;

/** Makes the middleware that gives each request an id and logs the request. */
export function requestLog(logger: Logger): Middleware {
  return async (ctx, next) => {
    const requestId = ctx.headers['x-request-id'];
    ctx.state.requestId =
      typeof requestId === 'string' && clientRequestId.test(requestId)
        ? requestId
        : newId('request');
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

/** Methods that are labels of metrics; every other method is counted as `other`. */
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);

/** Paths of probes, documents and the files of the console, which would be most of the traces. */
const untraced = /^\/($|healthz$|readyz$|docs(\/|$)|console(\/|$)|favicon\.ico$)/;

/** Makes the middleware that counts, measures and traces requests. */
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
      if (untraced.test(ctx.path)) return await next();
      await inSpan(
        {
          name: ctx.method,
          kind: SpanKind.SERVER,
          // `tracestate` is not accepted, because a caller's text must not be stored in workflow
          // histories.
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
