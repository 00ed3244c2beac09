/** A check in front of every handler of a router. */
import type Router from '@koa/router';
import type { RouterMiddleware } from '@koa/router';
import type { RequestState } from '../context.ts';

/**
 * How paths are compared: exactly. By default the router takes routes in any case, and its middleware
 * (`use`) in one case only: `/API/admin/…` reached the handler and passed the key check by.
 */
export const exactPaths = { sensitive: true } as const;

/**
 * Puts a check into each route that the router has by now, so that no request can match the one and not
 * the other. To be called after the routes were added.
 */
export function gate(router: Router<RequestState>, check: RouterMiddleware<RequestState>): void {
  for (const route of router.stack) route.stack.unshift(check);
}
