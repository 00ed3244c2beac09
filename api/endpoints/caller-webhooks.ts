/** Endpoints that get, redeliver and list the webhooks of jobs (docs/webhooks.md). */
import { z } from 'zod';
import {
  findWebhook,
  webhookAttempt,
  webhookRecord,
  type WebhookRecord,
  type Webhooks,
} from '../../webhooks/webhooks.ts';
import { GatewayError } from '../../domain/errors.ts';
import { toResponse } from '../../domain/json.ts';
import { getRequiredScope } from '../../studio/capabilities/capability.ts';
import { findCapability } from '../../studio/pipelines/job-kinds.ts';
import { stepId } from '../../studio/pipelines/pipeline-requests.ts';
import { authorize } from '../../identity/access.ts';
import { responseSchema, toData, toPage, dataSchema, idField, pageSchema } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { findJob, jobPath as path, jobRequest } from './studio-jobs.ts';

const attemptsShownMax = 50;

const endpointFilter = {
  endpointId: idField('webhookEndpoint').optional().meta({
    description: 'Choose only webhooks that this webhook endpoint receives.',
  }),
};

const deliverySchema = responseSchema(webhookAttempt).meta({ id: 'WebhookDelivery' });

/** Schema of a webhook without its delivery attempts. */
export const webhookSummary = responseSchema(webhookRecord)
  .omit({ subjectId: true, organizationId: true })
  .extend({
    event: webhookRecord.shape.event.meta({ description: 'Event of the job that is reported.' }),
    step: webhookRecord.shape.step.meta({
      description: 'Step that awaits an approval; null for other events.',
    }),
    url: z.url(),
  });

/** Schema of a webhook with its latest delivery attempts. */
export const webhookSchema = webhookSummary
  .extend({
    deliveries: z
      .array(deliverySchema)
      .meta({ description: 'The latest 50 delivery attempts, newest first.' }),
  })
  .meta({ id: 'Webhook' });

/** Returns a webhook with its latest delivery attempts. */
export async function buildWebhookResponse(
  webhooks: Pick<Webhooks, 'attempts'>,
  webhook: WebhookRecord,
): Promise<z.infer<typeof webhookSchema>> {
  const attempts = await webhooks.attempts(webhook.subjectId, attemptsShownMax);
  return webhookSchema.parse({ ...toResponse(webhook), deliveries: attempts.map(toResponse) });
}

/** Schema of a webhook in a list, with the result of its last delivery attempt. */
export const listedWebhook = webhookSummary
  .extend({
    lastStatus: z.int().nullable(),
    lastError: z.string().nullable(),
  })
  .meta({ id: 'ListedWebhook' });

/** Schema of a cursor of a list of webhooks: the id of a reported event. */
export const webhookCursor = z
  .string()
  .max(160)
  .regex(
    /^(?:(?:job|start)_[0-9a-f]{32}|wait_[0-9a-f]{32}_[\w-]+)(?:\.whe_[0-9a-f]{32})?$/,
    'must be the `nextCursor` of a page',
  );

/** Query parameters that choose webhooks of a job. */
export const webhookQuery = z.strictObject({
  step: stepId.optional().meta({
    description:
      'Id of a step of a pipeline: the webhook that reports that it awaits an approval. By default, the webhook of the end of the job.',
  }),
  ...endpointFilter,
});
const request = { ...jobRequest, query: webhookQuery };

/** Endpoints that get, redeliver and list webhooks of jobs. */
export const callerWebhooks = defineSection('Webhooks', {
  getJobWebhook: defineEndpoint({
    route: `GET ${path}/:jobId/webhook`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get the webhook of a job and its delivery attempts',
    description:
      'If several webhook endpoints receive the end of the job, the answer contains one of its webhooks: one that was not delivered, if there is one.',
    request,
    response: dataSchema(webhookSchema),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'NOT_FOUND'],
    async handle({ query, ...call }, { reads, webhooks }) {
      const { id: jobId, organizationId } = await findJob(call, { reads });
      const webhook = await findWebhook(webhooks, { ...query, jobId, organizationId });
      return toData(await buildWebhookResponse(webhooks, webhook));
    },
  }),

  redeliverJobWebhook: defineEndpoint({
    route: `POST ${path}/:jobId/webhook/redeliver`,
    scope: 'studio:read',
    summary: 'Deliver the webhooks of a job again',
    description: 'The key also needs the scope of the job’s endpoint, for example `studio:image`.',
    request,
    response: dataSchema(webhookSchema),
    responses: { 202: 'The webhook will be delivered again.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'NOT_FOUND', 'JOB_NOT_DONE'],
    async handle(call, services) {
      const job = await findJob(call, services);
      const { organizationId } = call.caller;
      const capability = findCapability(job.type);
      // A chat job has no capability.
      authorize(call.caller, capability ? getRequiredScope(capability) : 'chat');
      const { webhooks, webhookRelay } = services;
      const choice = { ...call.query, jobId: job.id, organizationId };
      await findWebhook(webhooks, choice);
      if (job.status === 'open' && choice.step === undefined)
        throw new GatewayError('JOB_NOT_DONE');
      await webhookRelay.redeliver(choice);
      return toData(await buildWebhookResponse(webhooks, await findWebhook(webhooks, choice)));
    },
  }),

  listWebhookDeliveries: defineEndpoint({
    route: 'GET /api/v1/webhooks/deliveries',
    scope: 'studio:read',
    bucket: 'polls',
    summary:
      'List the webhooks of jobs, newest job first: of its end and, if requested, of its start and of steps that await an approval',
    request: {
      query: z.strictObject({
        state: z
          .enum([...webhookSummary.shape.state.options, 'failing'])
          .optional()
          .meta({
            description:
              'Return only webhooks in this delivery state. `failing` matches every webhook whose last delivery attempt failed.',
          }),
        ...endpointFilter,
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: webhookCursor.optional(),
      }),
    },
    response: pageSchema(listedWebhook),
    async handle({ caller, query: { state, endpointId, limit, cursor } }, { webhooks }) {
      const { organizationId } = caller;
      const filter = { organizationId, endpointId, state, beforeId: cursor, limit: limit + 1 };
      const rows = await webhooks.list(filter);
      return toPage(rows, {
        limit,
        cursor: 'subjectId',
        show: (row) => listedWebhook.parse(toResponse(row)),
      });
    },
  }),
});
