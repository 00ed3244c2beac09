/** Counts, times and traces requests, by route pattern: paths hold ids. */
import type { Telemetry } from '../../platform/telemetry.ts';
import { routeOf, type Middleware } from '../context.ts';

/** Methods that have a name in metrics; whatever else a client sends is one word. */
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);

/** The middleware of what is configured; none where nothing is. */
export function observedRequests({
  metrics,
  tracing,
}: Pick<Telemetry, 'metrics' | 'tracing'>): Middleware[] {
  return [...(metrics ? [counted(metrics)] : []), ...(tracing ? [traced(tracing)] : [])];
}

function counted(metrics: NonNullable<Telemetry['metrics']>): Middleware {
  return async (ctx, next) => {
    const startedAtMs = performance.now();
    metrics.requestsInFlight.inc();
    try {
      await next();
    } finally {
      metrics.requestsInFlight.dec();
      const method = methods.has(ctx.method) ? ctx.method : 'other';
      const route = routeOf(ctx);
      metrics.requests.inc({ method, route, status: String(ctx.status) });
      metrics.requestSeconds.observe({ method, route }, (performance.now() - startedAtMs) / 1000);
    }
  };
}

function traced(tracing: NonNullable<Telemetry['tracing']>): Middleware {
  return (ctx, next) => {
    const given = String(ctx.headers['traceparent'] ?? '');
    return tracing.inSpan(
      {
        name: ctx.method,
        kind: 'server',
        ...(given !== '' && { traceparent: given }),
        attributes: { 'request.id': ctx.state.requestId, 'http.request.method': ctx.method },
      },
      async (span) => {
        await next();
        span.rename(`${ctx.method} ${routeOf(ctx)}`);
        span.set({ 'http.route': routeOf(ctx), 'http.response.status_code': ctx.status });
        if (ctx.status >= 500) span.fail(String(ctx.status));
      },
    );
  };
}
