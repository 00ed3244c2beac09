/** What the middleware leaves for the routes. */
import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from './identity/access.ts';

/** State of a request; `caller` is set behind authentication. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  /** Pattern of a route that was found without a router. */
  route?: string;
}

/** A request on its way. */
export type Context = Koa.ParameterizedContext<RequestState>;

/**
 * Pattern of the route that a request matched, for logs and metrics: paths hold ids. `none` where there
 * is no such route.
 */
export function routeOf(ctx: Context): string {
  if (ctx.state.route !== undefined) return ctx.state.route;
  // What the router leaves behind; the layers of its middleware have no methods.
  const matched: RouterContext['matched'] = ctx['matched'];
  const route = matched?.findLast(({ methods }) => methods.includes(ctx.method));
  return route ? String(route.path) : 'none';
}
