/** Operator endpoints that list, get and redeliver job webhooks. */
import { z } from 'zod';
import { findWebhook, type ListedWebhook } from '../../../webhooks/webhooks.ts';
import { toResponse } from '../../../domain/json.ts';
import { toData, toPage, idField, dataSchema, pageLimit, pageSchema } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import {
  listedWebhook,
  buildWebhookResponse,
  webhookCursor,
  webhookQuery,
  webhookSummary,
  webhookSchema,
} from '../caller-webhooks.ts';
import { findJobOfAnyOrganization, jobChangeRequest } from '../job-fields.ts';

const path = '/api/admin/v1/jobs/:jobId/webhook';

const webhookWithOwner = listedWebhook
  .extend({ organizationId: z.string() })
  .meta({ id: 'OwnedWebhook' });

const formatWebhook = (row: ListedWebhook) => webhookWithOwner.parse(toResponse(row));

/** Operator endpoints for job webhooks. */
export const webhooks = defineSection('Webhooks', {
  listWebhooks: defineEndpoint({
    route: 'GET /api/admin/v1/webhooks',
    summary: 'List webhooks, newest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        status: webhookSummary.shape.state.optional().meta({
          description:
            'Return only webhooks in this delivery state. If omitted, the response contains all webhooks whose last delivery attempt failed.',
        }),
        limit: pageLimit,
        cursor: webhookCursor.optional(),
      }),
    },
    response: pageSchema(webhookWithOwner),
    async handle({ query: { organizationId, status, limit, cursor } }, services) {
      const state = status ?? ('failing' as const);
      const filter = { organizationId, state, beforeId: cursor, limit: limit + 1 };
      const rows = await services.webhooks.list(filter);
      return toPage(rows, { limit, cursor: 'subjectId', show: formatWebhook });
    },
  }),

  getJobWebhook: defineEndpoint({
    route: `GET ${path}`,
    summary: 'Get the webhook of a job and its delivery attempts',
    request: { params: jobChangeRequest.params, query: webhookQuery },
    response: dataSchema(webhookSchema),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'NOT_FOUND'],
    async handle(request, { jobOverview, webhooks: records }) {
      const job = await findJobOfAnyOrganization(request, { jobOverview });
      const { id: jobId, organizationId } = job;
      const webhook = await findWebhook(records, { ...request.query, jobId, organizationId });
      return toData(await buildWebhookResponse(records, webhook));
    },
  }),

  redeliverJobWebhook: defineEndpoint({
    route: `POST ${path}/redeliver`,
    summary: 'Deliver the webhook of a job again',
    request: { ...jobChangeRequest, query: webhookQuery },
    response: dataSchema(webhookSchema),
    responses: { 202: 'The webhook will be delivered again.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'NOT_FOUND', 'JOB_NOT_DONE'],
    async handle(call, services) {
      const job = await findJobOfAnyOrganization(call, services);
      await services.jobActions.redeliver(job, call, call.query);
      const { id: jobId, organizationId } = job;
      const webhook = await findWebhook(services.webhooks, {
        ...call.query,
        jobId,
        organizationId,
      });
      return toData(await buildWebhookResponse(services.webhooks, webhook));
    },
  }),
});
