/**
 * Authenticates requests by API key (spec §5) or console session, and checks rate limits (spec §8).
 */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../domain/errors.ts';
import { correlate } from '../../platform/logger.ts';
import type { Composition } from '../composition.ts';
import type { Context, Middleware } from '../context.ts';
import type { Caller } from '../../identity/access.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';

/**
 * Pattern of a bearer credential. The scheme is case-insensitive, and several blanks may follow it
 * (RFC 9110 §11.1, §11.4).
 */
const bearer = /^Bearer +([^\s]+)$/i;

/**
 * Creates the middleware that finds the caller, sets the rate limit headers of the response, and
 * rejects requests above the rate limit with status 429.
 */
export function authenticate(
  { access, sessions }: Pick<Composition, 'access' | 'sessions'>,
  { bucket = 'requests', acceptsXApiKey }: Pick<Endpoint, 'bucket' | 'acceptsXApiKey'>,
): Middleware {
  async function findCaller(ctx: Context): Promise<Caller | null> {
    const key = parseBearerKey(ctx.req) ?? (acceptsXApiKey ? parseXApiKey(ctx.req) : undefined);
    if (key !== undefined) return access.admit(key, bucket);
    // The session is used only if the request has no key at all, not even an invalid one.
    const session = ctx.headers.authorization === undefined ? await sessions.admit(ctx) : undefined;
    if (!session) return null;
    ctx.state.sessionId = session.sessionId;
    // A page of the console reads more than a key may, but it changes things no more often.
    return access.admitMac(session.mac, isRead(ctx) ? 'console' : bucket);
  }
  return async (ctx, next) => {
    const caller = await findCaller(ctx);
    if (!caller) throw new GatewayError('Unauthorized', describeCredentials(ctx, acceptsXApiKey));
    ctx.state.caller = caller;
    correlate({ organizationId: caller.organizationId });
    const rate = access.findRate(caller);
    // The headers show an end user none of the limits that it shares with others.
    const { limit, remaining, resetAtMs } = caller.token ? access.findOwnRate(caller) : rate;
    ctx.set('X-RateLimit-Limit', String(limit));
    ctx.set('X-RateLimit-Remaining', String(Math.max(0, remaining)));
    ctx.set('X-RateLimit-Reset', String(Math.ceil(resetAtMs / 1000)));
    if (rate.remaining < 0) {
      throw new GatewayError('Rate limit exceeded. Please slow down.', undefined, {
        retryAfterSeconds: Math.max(1, Math.ceil((rate.resetAtMs - caller.nowMs) / 1000)),
      });
    }
    await next();
  };
}

const isRead = ({ method }: Context): boolean => method === 'GET' || method === 'HEAD';

/**
 * Returns the message for credentials that are missing or have a wrong form. Undefined if the form is
 * right, because a message about the key itself would tell whether it exists.
 */
function describeCredentials(
  { req: { headersDistinct: headers } }: Context,
  acceptsXApiKey: boolean | undefined,
): string | undefined {
  const alternative = acceptsXApiKey ? ' or x-api-key: <key>' : '';
  const advice = `Send the header Authorization: Bearer <key>${alternative}.`;
  const { authorization = [], 'x-api-key': apiKeys = [] } = headers;
  const [credentials = ''] = authorization;
  if (authorization.length > 1) return `The request has several Authorization headers. ${advice}`;
  if (authorization.length === 0) {
    if (apiKeys.length === 0) return `The request has no API key. ${advice}`;
    if (apiKeys.length > 1) return `The request has several x-api-key headers. ${advice}`;
    return acceptsXApiKey ? undefined : `This endpoint does not read x-api-key. ${advice}`;
  }
  if (bearer.test(credentials)) return undefined;
  if (/^(?:Bearer)?$/i.test(credentials)) return `The Authorization header has no key. ${advice}`;
  return /^Bearer /i.test(credentials)
    ? `The key in the Authorization header contains a blank. ${advice}`
    : `The Authorization header does not begin with Bearer and a blank. ${advice}`;
}

/** Returns the key of the `Authorization` header. Undefined if there is none or more than one. */
export function parseBearerKey(request: IncomingMessage): string | undefined {
  // `headersDistinct` has all repeated headers; `headers` has only the first.
  const credentials = request.headersDistinct['authorization'] ?? [];
  return credentials.length === 1 ? bearer.exec(credentials[0] ?? '')?.[1] : undefined;
}

/**
 * Returns the key of the `x-api-key` header. Undefined if the header is repeated, or if the request
 * also has an `Authorization` header.
 */
function parseXApiKey({ headersDistinct: headers }: IncomingMessage): string | undefined {
  const keys = headers['authorization'] ? [] : (headers['x-api-key'] ?? []);
  return keys.length === 1 ? keys[0] : undefined;
}
