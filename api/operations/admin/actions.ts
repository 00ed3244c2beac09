/** Operators: what operators did. */
import { z } from 'zod';
import { isoTimes } from '../../../domain/iso-time.ts';
import { listActions } from '../../identity/admin-actions.ts';
import { foundPage, idField, pageLimit, pageOf, time } from '../fields.ts';
import { defineOperation, section } from '../operation.ts';

/** What an operator did. */
export const actionSchema = z
  .object({
    id: z.int(),
    action: z.string(),
    actor: z.string(),
    reason: z.string(),
    organizationId: z.string().nullable(),
    subject: z.string(),
    details: z.looseObject({}),
    requestId: z.string(),
    createdAt: time,
  })
  .meta({ id: 'Action' });

/** The record. */
export const actions = section('Actions', {
  listActions: defineOperation({
    route: 'GET /api/admin/v1/actions',
    summary: 'List what operators did, newest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        limit: pageLimit,
        cursor: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
      }),
    },
    answer: pageOf(actionSchema),
    async handle({ query: { organizationId, limit, cursor } }, { pool }) {
      const rows = await listActions(pool, { organizationId, beforeId: cursor, limit: limit + 1 });
      return foundPage(rows, { limit, cursor: 'id', show: isoTimes });
    },
  }),
});
