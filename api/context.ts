/** Types of the request context and of the state that the middleware sets for the endpoints. */
import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from './identity/access.ts';
import type { Operator } from './identity/operators.ts';
import type { ErrorShape } from './http/error-bodies.ts';
import type { ExceededLimit } from '../platform/byte-budget.ts';

/** Kinds of bytes: request bodies in memory, files in the spool, stream text for a replay. */
export type ByteKind = 'body' | 'spool' | 'keptText';

/** Bytes to count for a request. */
export interface HeldBytes {
  kind: ByteKind;
  bytes: number;
  /** Owner of the budget; absent: the organization, or the client's address without a key. */
  owner?: string;
}

/** State of a request; authentication sets `caller`, or `operator` on operators' routes. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  operator: Operator;
  /** Console session of the request; absent if it has a key. */
  sessionId?: string;
  /** Counts bytes until the request is finished; returns the limit that they exceed, or null. */
  holdBytes: (held: HeldBytes) => ExceededLimit | null;
  /** Releases the bytes of a kind before the request is finished. */
  releaseBytes: (kind: ByteKind) => void;
  /** Error format of the endpoint; before the routing, OpenAI's below `/v1`. */
  errorShape?: ErrorShape;
}

/** Request with its state, its response and the matched routes. */
export type Context = Koa.ParameterizedContext<RequestState, Pick<RouterContext, 'matched'>>;

/** Middleware of the application. */
export type Middleware = (ctx: Context, next: () => Promise<void>) => Promise<void>;

/** Returns the pattern of the matched route for logs and metrics, or `none`. */
export function routeOf(ctx: Context): string {
  // The router sets `matched`; the first layer with the method responds. Layers that are middleware
  // have no methods.
  const route = ctx.matched?.find(({ methods }) => methods.includes(ctx.method));
  return route ? String(route.path) : 'none';
}
