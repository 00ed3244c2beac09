/**
 * Middleware for request ids, logs, metrics and traces. Each request has one log line with method,
 * route, status, ids and duration, but never a body or query. Logs and metrics contain the pattern
 * of the route instead of the path, because paths contain ids.
 */
import { propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { newId } from '../../domain/ids.ts';
import { withCorrelation, type Logger } from '../../platform/logger.ts';
import { inSpan, type Telemetry } from '../../platform/telemetry.ts';
import { findRoutePattern, type Context, type Middleware } from '../context.ts';

/** Pattern of the `X-Request-Id` values that are accepted from clients. */
const clientRequestId = /^[A-Za-z0-9-]{8,64}$/;

/** Creates the middleware that gives each request an id and logs the request. */
export function logRequests(logger: Logger): Middleware {
  return async (ctx, next) => {
    const requestId = ctx.headers['x-request-id'];
    ctx.state.requestId =
      typeof requestId === 'string' && clientRequestId.test(requestId)
        ? requestId
        : newId('request');
    ctx.set('X-Request-Id', ctx.state.requestId);
    await withCorrelation({ requestId: ctx.state.requestId }, () => logRequest(logger, ctx, next));
  };
}

async function logRequest(logger: Logger, ctx: Context, next: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  await next();
  logger.info(
    {
      method: ctx.method,
      route: findRoutePattern(ctx),
      status: ctx.status,
      organizationId: ctx.state.caller?.organizationId,
      keyId: ctx.state.caller?.keyId,
      tokenId: ctx.state.caller?.token?.tokenId,
      operatorId: ctx.state.operator?.operatorId ?? undefined,
      tookMs: Math.round((performance.now() - startedAt) * 10) / 10,
    },
    'request.answered',
  );
}

/** Methods that appear in metrics. Every other method is counted as `other`. */
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);

/** Paths that are not traced, because probes, documents and console files would fill the traces. */
const untracedPaths = /^\/($|healthz$|readyz$|docs(\/|$)|console(\/|$)|favicon\.ico$)/;

/** Creates the middleware that counts, measures and traces requests. */
export function observeRequests({ metrics }: Pick<Telemetry, 'metrics'>): Middleware {
  function countRequest(ctx: Context, startedAtMs: number): void {
    const method = methods.has(ctx.method) ? ctx.method : 'other';
    const route = findRoutePattern(ctx);
    metrics.requests.inc({ method, route, status: String(ctx.status) });
    metrics.requestSeconds.observe({ method, route }, (performance.now() - startedAtMs) / 1000);
  }
  return async (ctx, next) => {
    const startedAtMs = performance.now();
    metrics.requestsInFlight.inc();
    try {
      if (untracedPaths.test(ctx.path)) return await next();
      await inSpan(
        {
          name: ctx.method,
          kind: SpanKind.SERVER,
          // `tracestate` is ignored: callers choose its text, and workflow histories would store
          // it.
          parent: propagation.extract(ROOT_CONTEXT, { traceparent: ctx.headers['traceparent'] }),
          attributes: { 'request.id': ctx.state.requestId, 'http.request.method': ctx.method },
        },
        async (span) => {
          await next();
          const route = findRoutePattern(ctx);
          span.updateName(`${ctx.method} ${route}`);
          span.setAttributes({ 'http.route': route, 'http.response.status_code': ctx.status });
          if (ctx.status >= 500)
            span.setStatus({ code: SpanStatusCode.ERROR, message: String(ctx.status) });
        },
      );
    } finally {
      metrics.requestsInFlight.dec();
      countRequest(ctx, startedAtMs);
    }
  };
}
