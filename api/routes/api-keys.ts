/** /api/v1/api-keys: the keys of the authenticated user (spec §4.3), and their rotation. */
import type Router from '@koa/router';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { isId, newId } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Context, RequestState } from '../context.ts';
import { keyExpiry, keyModels, keyName, keyScopes } from '../identity/key-fields.ts';
import { claimKey, finishClaim } from '../idempotency/claims.ts';
import { createKeys, pastExpiry, type NewKey } from '../identity/keys.ts';
import { authorize, refuseViewer } from '../middleware/authenticate.ts';
import { parseBody, parseWith } from '../middleware/body.ts';
import { bodySchema } from '../middleware/body-schema.ts';
import { idempotencyKeyOf } from '../middleware/idempotency-key.ts';

const dayMs = 86_400_000;
/** Time to roll a new key out where the wish does not say. */
const overlapPresetMs = dayMs;
const overlapSecondsMax = (30 * dayMs) / 1000;

/** Body of a new key. */
export const createRequest = bodySchema(
  z.strictObject({
    name: keyName,
    expiresAt: keyExpiry.optional(),
    scopes: keyScopes.optional(),
    allowedModels: keyModels.optional(),
  }),
);

/** Body of a rotation; all of it is optional. */
export const rotateRequest = bodySchema(
  z.strictObject({
    overlapSeconds: z.int().min(0).max(overlapSecondsMax).optional(),
    expiresAt: keyExpiry.optional(),
  }),
);

interface ApiKeyRoutesDeps {
  pool: DatabasePool;
  keyPepper: string;
}

/** Adds the routes. */
export function addApiKeyRoutes(
  router: Router<RequestState>,
  { pool, keyPepper }: ApiKeyRoutesDeps,
): void {
  const keys = createKeys(pool, keyPepper);

  router.get('/api-keys', async (ctx) => {
    authorize(ctx.state.caller, 'keys:read');
    ctx.body = { keys: await keys.list(ctx.state.caller.memberId) };
  });

  router.post('/api-keys', async (ctx) => {
    mayMakeKeys(ctx);
    const body = await parseBody(ctx, createRequest);
    const { expiresAt, ...rest } = body;
    const { memberId, organizationId, keyId: makerKeyId } = ctx.state.caller;
    requireFuture(ctx, expiresAt);
    const keyId = newId('key');
    const wanted = { ...rest, keyId, memberId, makerKeyId, expiresAtMs: expiresAt };
    const idempotencyKey = idempotencyKeyOf(ctx);
    if (idempotencyKey === null) {
      ctx.body = shownOnce(ctx, await keys.create(wanted));
      return;
    }
    // The secret is kept nowhere, so a repeat cannot show it: it is told which key was made.
    const told = { memberId, ...body };
    const request = { organizationId, idempotencyKey, path: '/api-keys', body: told };
    const made = await pool.transaction(async (connection) => {
      const claim = await claimKey(connection, { ...request, subjectId: keyId });
      if (claim.state === 'done') {
        const said = { body: { keyId: claim.subjectId } };
        throw new GatewayError('KEY_ALREADY_CREATED', undefined, said);
      }
      await finishClaim(connection, claim.name);
      return createKeys(connection, keyPepper).create(wanted);
    });
    ctx.body = shownOnce(ctx, made);
  });

  router.post('/api-keys/:keyId/rotate', async (ctx) => {
    mayMakeKeys(ctx);
    const empty = ctx.is('json') === null || ctx.request.length === 0;
    const wanted = empty ? parseWith(rotateRequest, {}) : await parseBody(ctx, rotateRequest);
    const { caller } = ctx.state;
    requireFuture(ctx, wanted.expiresAt);
    const overlapMs =
      wanted.overlapSeconds === undefined ? overlapPresetMs : wanted.overlapSeconds * 1000;
    const oldKeyId = keyIdOf(ctx.params['keyId']);
    const made = await keys.rotate({
      memberId: caller.memberId,
      makerKeyId: caller.keyId,
      keyId: oldKeyId,
      overlapMs,
      expiresAtMs: wanted.expiresAt,
    });
    ctx.body = {
      ...shownOnce(ctx, made),
      replaced: { keyId: oldKeyId, expiresAt: made.oldExpiresAt },
    };
  });

  router.delete('/api-keys/:keyId', async (ctx) => {
    authorize(ctx.state.caller, 'keys:write');
    const keyId = keyIdOf(ctx.params['keyId']);
    await keys.revoke(keyId, ctx.state.caller.memberId);
    ctx.body = { success: true, keyId };
  });
}

/** A malformed id is an unknown one; it never reaches the database. */
function keyIdOf(word: string | undefined): string {
  if (word === undefined || !isId('key', word)) {
    throw new GatewayError('NOT_FOUND', 'No such API key.');
  }
  return word;
}

/** By the database's clock, which decides of expiry everywhere. */
function requireFuture(ctx: Context, expiresAtMs: number | undefined): void {
  if (expiresAtMs !== undefined && expiresAtMs <= ctx.state.caller.nowMs) throw pastExpiry();
}

function mayMakeKeys(ctx: Context): void {
  authorize(ctx.state.caller, 'keys:write');
  refuseViewer(ctx.state.caller, 'A viewer may not create keys.');
}

function shownOnce(ctx: Context, { key, meta }: NewKey): Record<string, unknown> {
  // No cache on the way may keep the secret.
  ctx.set('Cache-Control', 'no-store');
  return { key, ...meta };
}
