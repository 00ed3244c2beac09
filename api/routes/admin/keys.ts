/** Operators: API keys made and revoked for a user. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { scopes } from '../../identity/access.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { keyExpiry, keyModels, keyName, keyScopes } from '../../identity/key-fields.ts';
import { createKeys } from '../../identity/keys.ts';
import { readMember } from '../../identity/organizations.ts';
import { parseBody } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { authority, bareWrite, idParam } from './fields.ts';

const creation = bodySchema(
  z.strictObject({
    ...authority,
    name: keyName,
    expiresAt: keyExpiry.optional(),
    scopes: keyScopes.optional(),
    allowedModels: keyModels.optional(),
  }),
);

interface KeyRoutesDeps {
  pool: DatabasePool;
  keyPepper: string;
}

/** Adds the routes. */
export function addAdminKeyRoutes(
  router: Router<RequestState>,
  { pool, keyPepper }: KeyRoutesDeps,
): void {
  router.get('/users/:userId/keys', async (ctx) => {
    const { userId } = await readMember(pool, idParam(ctx, 'userId', 'member'));
    ctx.body = { success: true, data: await createKeys(pool, keyPepper).list(userId) };
  });

  router.post('/users/:userId/keys', async (ctx) => {
    const { actor, reason, expiresAt, ...wanted } = await parseBody(ctx, creation);
    const memberId = idParam(ctx, 'userId', 'member');
    const made = await pool.transaction(async (connection) => {
      const key = await createKeys(connection, keyPepper).create({
        scopes,
        ...wanted,
        memberId,
        makerKeyId: null,
        expiresAtMs: expiresAt,
      });
      await recordAction(connection, {
        actor,
        reason,
        action: 'key.created',
        organizationId: key.organizationId,
        subject: key.meta.keyId,
        details: { userId: memberId, name: key.meta.name, scopes: key.meta.scopes },
        requestId: ctx.state.requestId,
      });
      return key;
    });
    // No cache on the way may keep the secret.
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { success: true, data: { key: made.key, ...made.meta } };
  });

  router.post('/keys/:keyId/revoke', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const keyId = idParam(ctx, 'keyId', 'key');
    await pool.transaction(async (connection) => {
      const organizationId = await createKeys(connection, keyPepper).revoke(keyId, null);
      await recordAction(connection, {
        ...by,
        action: 'key.revoked',
        organizationId,
        subject: keyId,
        requestId: ctx.state.requestId,
      });
    });
    ctx.body = { success: true, data: { keyId } };
  });
}
