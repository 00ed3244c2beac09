/** GET /api/v1/webhooks/deliveries: the webhooks of an organization's jobs, and where each stands. */
import { z } from 'zod';
import { foundPage, idField, pageOf } from './fields.ts';
import { defineOperation, section } from './operation.ts';
import { listedView, listedWebhook, webhookLine } from './webhook-view.ts';

/** The list. */
export const webhookDeliveries = section('Webhooks', {
  listWebhookDeliveries: defineOperation({
    route: 'GET /api/v1/webhooks/deliveries',
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List the webhooks of jobs, newest job first',
    request: {
      query: z.strictObject({
        state: z
          .enum([...webhookLine.shape.state.options, 'failing'])
          .optional()
          .meta({ description: '`failing`: all whose last attempt failed.' }),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: idField('job').optional(),
      }),
    },
    answer: pageOf(listedWebhook),
    async handle({ caller, query: { state, limit, cursor } }, { webhooks }) {
      const { organizationId } = caller;
      const listing = { organizationId, state, beforeJobId: cursor, limit: limit + 1 };
      const rows = await webhooks.list(listing);
      return foundPage(rows, { limit, cursor: 'jobId', show: listedView });
    },
  }),
});
