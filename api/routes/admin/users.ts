/** Operators: users of an organization. */
import type Router from '@koa/router';
import { z } from 'zod';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { createMember } from '../../identity/accounts.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { plainText } from '../../identity/key-fields.ts';
import {
  listMembers,
  readMember,
  readOrganization,
  type MemberRecord,
} from '../../identity/organizations.ts';
import { parseBody } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { authority, idParam } from './fields.ts';

const creation = bodySchema(
  z.strictObject({
    ...authority,
    name: plainText(200),
    role: z.enum(['owner', 'admin', 'member', 'viewer']).default('member'),
  }),
);

/** An organization with more users than this is listed from the oldest on. */
const usersShownMax = 1000;

/** Adds the routes. */
export function addUserRoutes(router: Router<RequestState>, pool: DatabasePool): void {
  router.post('/organizations/:organizationId/users', async (ctx) => {
    const { name, role, ...by } = await parseBody(ctx, creation);
    const organizationId = idParam(ctx, 'organizationId', 'organization');
    const userId = await pool.transaction(async (connection) => {
      const made = await createMember(connection, { organizationId, name, role });
      await recordAction(connection, {
        ...by,
        action: 'user.created',
        organizationId,
        subject: made,
        details: { name, role },
        requestId: ctx.state.requestId,
      });
      return made;
    });
    ctx.body = { success: true, data: userView(await readMember(pool, userId)) };
  });

  router.get('/organizations/:organizationId/users', async (ctx) => {
    const organizationId = idParam(ctx, 'organizationId', 'organization');
    await readOrganization(pool, organizationId);
    const users = await listMembers(pool, organizationId, usersShownMax);
    ctx.body = { success: true, data: users.map(userView) };
  });
}

function userView({ createdAtMs, ...user }: MemberRecord): Record<string, unknown> {
  return { ...user, createdAt: isoTime(createdAtMs) };
}
