/** GET /healthz (the process lives) and /readyz (it can serve: Postgres, Temporal, workers). */
import type Router from '@koa/router';
import type { RequestState } from '../context.ts';

/** Checks by name; true when that part can be used now. */
export type Readiness = Record<string, () => Promise<boolean>>;

const checkTimeoutMs = 3000;

/** Adds the two routes. */
export function addHealthRoutes(router: Router<RequestState>, readiness: Readiness): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });
  router.get('/readyz', async (ctx) => {
    const names = Object.keys(readiness);
    const states = await Promise.all(Object.values(readiness).map(within));
    const checks = Object.fromEntries(names.map((name, index) => [name, states[index]]));
    const ready = states.every(Boolean);
    ctx.status = ready ? 200 : 503;
    if (!ready) ctx.set('Retry-After', '2');
    ctx.body = { status: ready ? 'ready' : 'not ready', checks };
  });
}

async function within(check: () => Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, checkTimeoutMs, false);
  });
  try {
    return await Promise.race([check().catch(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}
