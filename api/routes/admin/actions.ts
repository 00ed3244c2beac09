/** Operators: what operators did. */
import type Router from '@koa/router';
import { z } from 'zod';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { listActions } from '../../identity/admin-actions.ts';
import { parseWith } from '../../middleware/body.ts';
import { idField, pageLimit, pageOf } from './fields.ts';

const listing = z.strictObject({
  organizationId: idField('organization').optional(),
  limit: pageLimit,
  cursor: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
});

/** Adds the route. */
export function addActionRoutes(router: Router<RequestState>, pool: DatabasePool): void {
  router.get('/actions', async (ctx) => {
    const { organizationId, limit, cursor } = parseWith(listing, { ...ctx.query });
    const actions = await listActions(pool, { organizationId, beforeId: cursor, limit: limit + 1 });
    const { page, ...rest } = pageOf(actions, limit, (last) => String(last.id));
    const data = page.map(({ createdAtMs, ...action }) => ({
      ...action,
      createdAt: isoTime(createdAtMs),
    }));
    ctx.body = { success: true, data, ...rest };
  });
}
