/** Counts, times and traces requests, by route pattern: paths hold ids. */
import type { Telemetry } from '../../platform/telemetry.ts';
import { routeOf, type Context, type Middleware } from '../context.ts';

/** Methods that have a name in metrics; whatever else a client sends is one word. */
const methods = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);

/** See the file's head. */
export function observedRequests({
  metrics,
  tracing,
}: Pick<Telemetry, 'metrics' | 'tracing'>): Middleware {
  function count(ctx: Context, startedAtMs: number): void {
    const method = methods.has(ctx.method) ? ctx.method : 'other';
    const route = routeOf(ctx);
    metrics.requests.inc({ method, route, status: String(ctx.status) });
    metrics.requestSeconds.observe({ method, route }, (performance.now() - startedAtMs) / 1000);
  }
  return async (ctx, next) => {
    const startedAtMs = performance.now();
    const given = String(ctx.headers['traceparent'] ?? '');
    metrics.requestsInFlight.inc();
    try {
      await tracing.inSpan(
        {
          name: ctx.method,
          kind: 'server',
          ...(given !== '' && { traceparent: given }),
          attributes: { 'request.id': ctx.state.requestId, 'http.request.method': ctx.method },
        },
        async (span) => {
          await next();
          const route = routeOf(ctx);
          span.rename(`${ctx.method} ${route}`);
          span.set({ 'http.route': route, 'http.response.status_code': ctx.status });
          if (ctx.status >= 500) span.fail(String(ctx.status));
        },
      );
    } finally {
      metrics.requestsInFlight.dec();
      count(ctx, startedAtMs);
    }
  };
}
