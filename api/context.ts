/** What the middleware leaves for the routes. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from './identity/access.ts';
import type { BodyBytes } from './middleware/body-bytes.ts';

/** State of a request; `caller` is set behind authentication. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  bodyBytes: BodyBytes;
  /** Pattern of a route that was found without a router. */
  route?: string;
}

/** A request on its way. */
export type Context = Koa.ParameterizedContext<RequestState>;

/** The part of a context that middleware and chat need: Koa's has it, and so has an `Exchange`. */
export interface RequestContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly state: RequestState;
  status: number;
  body: unknown;
  /** What a router found. */
  readonly matched?: RouterContext['matched'];
  /** Sets a header of the answer. */
  set: (name: string, value: string) => void;
}

/**
 * Pattern of the route that a request matched, for logs and metrics: paths hold ids. `none` where there
 * is no such route.
 */
export function routeOf(ctx: RequestContext): string {
  if (ctx.state.route !== undefined) return ctx.state.route;
  // What the router leaves behind; the layers of its middleware have no methods.
  const route = ctx.matched?.findLast(({ methods }) => methods.includes(ctx.method));
  return route ? String(route.path) : 'none';
}
