/** Authentication by key (spec §5) or console session, rate limit (spec §8), and permissions. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../domain/errors.ts';
import { correlate } from '../../platform/correlation.ts';
import type { Composition } from '../composition.ts';
import type { Context, Middleware } from '../context.ts';
import type { Caller, Scope } from '../identity/access.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';

/** Pattern of a bearer credential; the case of the scheme does not matter (RFC 9110 §11.1). */
const bearer = /^Bearer ([^\s]+)$/i;

/**
 * Makes the middleware that finds the caller, sets the rate limit headers of the response, and
 * rejects a request above the limit with status 429.
 */
export function authenticate(
  { access, sessions }: Pick<Composition, 'access' | 'sessions'>,
  { bucket = 'requests', takesXApiKey }: Pick<Endpoint, 'bucket' | 'takesXApiKey'>,
): Middleware {
  async function callerOf(ctx: Context): Promise<{ caller: Caller | null; limit: number }> {
    const key = bearerKey(ctx.req) ?? (takesXApiKey ? headerKey(ctx.req) : undefined);
    if (key !== undefined) {
      return { caller: await access.admit(key, bucket), limit: access.limits[bucket] };
    }
    // A request with a key, also with an invalid one, does not use the session.
    const session = ctx.headers.authorization === undefined ? await sessions.admit(ctx) : undefined;
    const caller = session ? await access.admitMac(session.mac, 'console') : null;
    if (session) ctx.state.sessionId = session.sessionId;
    return { caller, limit: access.limits.console };
  }
  return async (ctx, next) => {
    const { caller, limit } = await callerOf(ctx);
    if (!caller) throw new GatewayError('Unauthorized', describeMissingKey(ctx, takesXApiKey));
    ctx.state.caller = caller;
    correlate({ organizationId: caller.organizationId });
    ctx.set('X-RateLimit-Limit', String(limit));
    ctx.set('X-RateLimit-Remaining', String(Math.max(0, limit - caller.hits)));
    ctx.set('X-RateLimit-Reset', String(Math.ceil(caller.resetAtMs / 1000)));
    if (caller.hits > limit) {
      throw new GatewayError('Rate limit exceeded. Please slow down.', undefined, {
        retryAfterSeconds: Math.max(1, Math.ceil((caller.resetAtMs - caller.nowMs) / 1000)),
      });
    }
    await next();
  };
}

/** Returns the message for a request without credentials; undefined if they are invalid. */
function describeMissingKey(
  { headers }: Context,
  takesXApiKey: boolean | undefined,
): string | undefined {
  if (headers.authorization !== undefined || headers['x-api-key'] !== undefined) return undefined;
  const other = takesXApiKey ? ' or x-api-key: <key>' : '';
  return `The request has no API key. Send the header Authorization: Bearer <key>${other}.`;
}

/** Returns the bearer key; undefined if the request has no bearer credential or several. */
export function bearerKey(request: IncomingMessage): string | undefined {
  // `headersDistinct` keeps repeated headers apart; `headers` would join or drop them.
  const credentials = request.headersDistinct['authorization'] ?? [];
  return credentials.length === 1 ? bearer.exec(credentials[0] ?? '')?.[1] : undefined;
}

/** Returns the `x-api-key`; undefined if there are other credentials or several keys. */
function headerKey({ headersDistinct: headers }: IncomingMessage): string | undefined {
  const keys = headers['authorization'] ? [] : (headers['x-api-key'] ?? []);
  return keys.length === 1 ? keys[0] : undefined;
}

/** Rejects users with the role `viewer`. @throws GatewayError FORBIDDEN with the message */
export function refuseViewer(caller: Caller, message: string): void {
  if (caller.role === 'viewer') throw new GatewayError('FORBIDDEN', message);
}

/**
 * Checks that the organization is active and the key has the scope, before the body is read
 * (refusal order, design §5).
 * @throws GatewayError FORBIDDEN, ORGANIZATION_SUSPENDED
 */
export function authorize(caller: Caller, scope: Scope | 'any'): void {
  if (caller.organizationStatus === 'suspended') throw new GatewayError('ORGANIZATION_SUSPENDED');
  if (scope === 'any') return;
  if (!caller.scopes.includes(scope)) {
    throw new GatewayError('FORBIDDEN', `This key does not have the scope ${scope}.`);
  }
  const spends = scope === 'chat' || (scope.startsWith('studio:') && scope !== 'studio:read');
  if (spends) refuseViewer(caller, 'A viewer may not spend credits.');
}

/** Checks that the key may use a model; null: none. @throws GatewayError FORBIDDEN */
export function authorizeModel(caller: Caller, model: string | null): void {
  if (model && caller.allowedModels && !caller.allowedModels.includes(model)) {
    throw new GatewayError('FORBIDDEN', `This key may not use the model ${model}.`);
  }
}
