/** What the middleware leaves for the routes. */
import type Koa from 'koa';
import type { Caller } from './identity/access.ts';

/** State of a request; `caller` is set behind authentication. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  /** Pattern of the matched route, for logs and metrics: paths hold ids. */
  route?: string;
}

/** A request on its way. */
export type Context = Koa.ParameterizedContext<RequestState>;
