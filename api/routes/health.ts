/** GET /healthz (the process lives) and /readyz (it can serve; without Temporal, chat only). */
import type Router from '@koa/router';
import { checkReadiness, type Readiness } from '../../platform/readiness.ts';
import type { RequestState } from '../context.ts';

/** Adds the two routes. */
export function addHealthRoutes(router: Router<RequestState>, readiness: Readiness): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });
  router.get('/readyz', async (ctx) => {
    const { ready, ...told } = await checkReadiness(readiness);
    ctx.status = ready ? 200 : 503;
    if (!ready) ctx.set('Retry-After', '2');
    ctx.body = told;
  });
}
