/** What the middleware leaves for the routes. */
import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from './identity/access.ts';
import type { Operator } from './identity/operators.ts';
import type { ErrorShape } from './middleware/errors.ts';
import type { ByteKind, HeldBytes } from './middleware/byte-limits.ts';
import type { ExceededBound } from '../platform/byte-budget.ts';

/** State of a request; `caller`, or `operator`, is set behind authentication. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  operator: Operator;
  /** Holds bytes for this request until it is finished; returns the bound that they would exceed (byte-limits.ts). */
  holdBytes: (held: HeldBytes) => ExceededBound | null;
  /** Releases the bytes of a kind before the request is finished. */
  releaseBytes: (kind: ByteKind) => void;
  /** Shape of errors: the operation's; before an operation is found, OpenAI's below `/v1` and the service's elsewhere. */
  errorShape?: ErrorShape;
}

/** A request on its way, and its answer. */
export type Context = Koa.ParameterizedContext<RequestState, Pick<RouterContext, 'matched'>>;

/** Middleware of the application. */
export type Middleware = (ctx: Context, next: () => Promise<void>) => Promise<void>;

/**
 * Pattern of the route that a request matched, for logs and metrics: paths hold ids. `none` where there
 * is no such route.
 */
export function routeOf(ctx: Context): string {
  // What the router leaves behind; the layers of its middleware have no methods.
  const route = ctx.matched?.findLast(({ methods }) => methods.includes(ctx.method));
  return route ? String(route.path) : 'none';
}
