/** Operators: organizations, their state and their six-hour allowance. */
import type Router from '@koa/router';
import { z } from 'zod';
import { microFromCredits } from '../../../domain/credits.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { createOrganization } from '../../identity/accounts.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { plainText } from '../../identity/key-fields.ts';
import {
  listOrganizations,
  readOrganization,
  setOrganizationStatus,
  setWindowLimit,
  type OrganizationRecord,
} from '../../identity/organizations.ts';
import { parseBody, parseWith } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { accountView } from '../usage.ts';
import { authority, bareWrite, idField, pageLimit, pageOf, idParam } from './fields.ts';

/** Credits per six hours; null = no limit. */
const allowance = z.number().min(0).max(1_000_000_000).nullable();

const creation = bodySchema(
  z.strictObject({
    ...authority,
    name: plainText(200),
    windowAllowanceCredits: allowance.default(null),
  }),
);
const newAllowance = bodySchema(z.strictObject({ ...authority, credits: allowance }));
const listing = z.strictObject({
  status: z.enum(['active', 'suspended']).optional(),
  limit: pageLimit,
  cursor: idField('organization').optional(),
});

const microOf = (credits: number | null): number | null =>
  credits === null ? null : microFromCredits(credits);

/** Adds the routes. */
export function addOrganizationRoutes(router: Router<RequestState>, pool: DatabasePool): void {
  router.post('/organizations', async (ctx) => {
    const { name, windowAllowanceCredits, ...by } = await parseBody(ctx, creation);
    const windowLimitMicro = microOf(windowAllowanceCredits);
    const made = await pool.transaction(async (connection) => {
      const ids = await createOrganization(connection, { name, windowLimitMicro });
      await recordAction(connection, {
        ...by,
        action: 'organization.created',
        organizationId: ids.organizationId,
        subject: ids.organizationId,
        details: { name, windowAllowanceCredits },
        requestId: ctx.state.requestId,
      });
      return ids;
    });
    const record = await readOrganization(pool, made.organizationId);
    ctx.body = { success: true, data: { ...organizationView(record), ownerId: made.memberId } };
  });

  router.get('/organizations', async (ctx) => {
    const { status, limit, cursor } = parseWith(listing, { ...ctx.query });
    const rows = await listOrganizations(pool, { status, beforeId: cursor, limit: limit + 1 });
    const { page, ...rest } = pageOf(rows, limit, (last) => last.organizationId);
    ctx.body = { success: true, data: page.map(organizationView), ...rest };
  });

  router.get('/organizations/:organizationId', async (ctx) => {
    const record = await readOrganization(pool, idParam(ctx, 'organizationId', 'organization'));
    ctx.body = { success: true, data: organizationView(record) };
  });

  addStatusRoutes(router, pool);

  router.put('/organizations/:organizationId/window-allowance', async (ctx) => {
    const { credits, ...by } = await parseBody(ctx, newAllowance);
    const organizationId = idParam(ctx, 'organizationId', 'organization');
    await pool.transaction(async (connection) => {
      await setWindowLimit(connection, organizationId, microOf(credits));
      await recordAction(connection, {
        ...by,
        action: 'window_allowance.set',
        organizationId,
        subject: organizationId,
        details: { credits },
        requestId: ctx.state.requestId,
      });
    });
    const record = await readOrganization(pool, organizationId);
    ctx.body = { success: true, data: organizationView(record) };
  });
}

function addStatusRoutes(router: Router<RequestState>, pool: DatabasePool): void {
  for (const [verb, status] of [
    ['suspend', 'suspended'],
    ['activate', 'active'],
  ] as const) {
    router.post(`/organizations/:organizationId/${verb}`, async (ctx) => {
      const by = await parseBody(ctx, bareWrite);
      const organizationId = idParam(ctx, 'organizationId', 'organization');
      await pool.transaction(async (connection) => {
        await setOrganizationStatus(connection, organizationId, status);
        await recordAction(connection, {
          ...by,
          action: status === 'active' ? 'organization.activated' : 'organization.suspended',
          organizationId,
          subject: organizationId,
          requestId: ctx.state.requestId,
        });
      });
      const record = await readOrganization(pool, organizationId);
      ctx.body = { success: true, data: organizationView(record) };
    });
  }
}

function organizationView(record: OrganizationRecord): Record<string, unknown> {
  return {
    organizationId: record.organizationId,
    name: record.name,
    status: record.status,
    createdAt: isoTime(record.createdAtMs),
    ...accountView(record),
  };
}
