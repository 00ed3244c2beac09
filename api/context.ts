/** Types of the Koa request context and of the state that middleware sets for the endpoints. */
import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from '../identity/access.ts';
import type { Operator } from '../identity/operators.ts';
import type { GatewayError } from '../domain/errors.ts';
import type { ErrorFormat } from '../domain/error-bodies.ts';
import type { ExceededLimit } from '../platform/shares.ts';

/**
 * Kinds of bytes that requests hold: request body, response in memory, text of a stream that is
 * stored for replays, and uploaded files on disk (`spool`).
 */
export type ByteKind = 'body' | 'response' | 'replayText' | 'spool';

/** Bytes to add to those that a request holds. */
export interface CountedBytes {
  kind: ByteKind;
  bytes: number;
  /**
   * Owner of the bytes. Defaults to the organization, or to the client's IP address if the request
   * has no key.
   */
  owner?: string;
}

/** State of a request. Authentication sets `caller`, or `operator` on operators' routes. */
export interface RequestState {
  requestId: string;
  caller: Caller;
  operator: Operator;
  /** Id of the request's console session. Absent if the request has an API key. */
  sessionId?: string;
  /** Adds bytes until the response has closed. Returns the limit that is exceeded, or null. */
  countBytes: (bytes: CountedBytes) => ExceededLimit | null;
  /** Releases the bytes of a kind before the response has closed. */
  releaseBytes: (kind: ByteKind) => void;
  /** True if the body is a constant of the process, which is shared by all its responses. */
  isConstant?: true;
  /** Functions to run when the response has closed. */
  closings?: (() => void)[];
  /** Model that the body of the request names. */
  requestedModel?: string;
  /** End user of the request, once its body was read. */
  endUser?: string | undefined;
  /** Records that the request was rejected. Absent once its chat or job was accepted. */
  recordRejection?: ((error: GatewayError) => void) | undefined;
  /** Ends the turn of a read before a wait. */
  endTurn?: () => void;
  /** Error format of the SDK or of the endpoint; by default `service`. */
  errorFormat?: ErrorFormat;
  /** True if the path of the request begins with `/v1`, or with no version, as SDKs send it. */
  isSdkPath?: boolean;
}

/** Request with its state, its response and the matched routes. */
export type Context = Koa.ParameterizedContext<RequestState, Pick<RouterContext, 'matched'>>;

/** Middleware of the application. */
export type Middleware = (ctx: Context, next: () => Promise<void>) => Promise<void>;

/** Returns the path pattern of the matched route for logs and metrics, or `none`. */
export function findRoutePattern(ctx: Context): string {
  // `ctx.matched` also contains middleware, which has no methods.
  const route = ctx.matched?.find(({ methods }) => methods.includes(ctx.method));
  return route ? String(route.path) : 'none';
}
