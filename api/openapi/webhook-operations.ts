/** Webhooks of callers, described: their operations, and what is sent (docs/webhooks.md). */
import { z } from 'zod';
import { idempotencyHeader } from '../middleware/idempotency-key.ts';
import { rotateSecretRequest } from '../routes/webhooks.ts';
import { jobSchema } from './job-operations.ts';
import type { AnswerDescription, Operation } from './operation.ts';

const tag = 'Webhooks';
const time = z.iso.datetime();

const deliverySchema = z
  .object({
    number: z.int(),
    outcome: z.enum(['sending', 'delivered', 'gone', 'failed']),
    status: z.int().nullable(),
    error: z.string().nullable().meta({ description: 'Why there is no status.' }),
    response: z.string().nullable().meta({ description: 'The first of what was answered.' }),
    durationMs: z.int().nullable(),
    startedAt: time,
  })
  .meta({ id: 'WebhookDelivery' });

const webhookSchema = z
  .object({
    jobId: z.string(),
    url: z.url(),
    state: z.enum(['waiting', 'delivering', 'delivered', 'gone', 'failed']),
    attempts: z.int(),
    nextAttemptAt: time.nullable(),
    createdAt: time,
    updatedAt: time,
    deliveries: z.array(deliverySchema).meta({ description: 'The newest 50, newest first.' }),
  })
  .meta({ id: 'Webhook' });

const secretSchema = z.object({
  secret: z.string().meta({ description: '`whsec_…`, as Standard Webhooks libraries take it.' }),
  generation: z.int(),
  replaced: z
    .array(z.object({ generation: z.int(), retiresAt: time }))
    .meta({ description: 'Secrets that still sign beside it.' }),
});

const answer = (description: string, schema: z.ZodType): AnswerDescription => ({
  description,
  content: { type: 'application/json', schema },
});
const oneWebhook = z.object({ success: z.literal(true), data: webhookSchema });
const params = z.object({ jobId: z.string() });

/** The secret, the log of a job's webhook, redelivery. */
export const webhookOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/v1/webhooks/secret',
    id: 'getWebhookSecret',
    tag,
    summary: 'The secret that signs your webhooks',
    scope: 'keys:write',
    answers: { 200: answer('The secret in use.', secretSchema) },
    errors: [],
  },
  {
    method: 'post',
    path: '/api/v1/webhooks/secret/rotate',
    id: 'rotateWebhookSecret',
    tag,
    summary: 'Replace the secret',
    description:
      'For the overlap, a day unless told, webhooks carry the signatures of both. 0 ends the old one at once.',
    scope: 'keys:write',
    headers: z.object(idempotencyHeader),
    body: {
      required: false,
      content: {
        'application/json': { schema: rotateSecretRequest, example: { overlapSeconds: 3600 } },
      },
    },
    answers: {
      200: {
        ...answer('The new secret.', secretSchema),
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
      },
    },
    errors: [
      'INVALID_REQUEST',
      'IDEMPOTENCY_KEY_REUSED',
      'PAYLOAD_TOO_LARGE',
      'UNSUPPORTED_MEDIA_TYPE',
    ],
  },
  {
    method: 'get',
    path: '/api/v1/studio/jobs/{jobId}/webhook',
    id: 'getJobWebhook',
    tag,
    summary: 'Look at the webhook of a job and the attempts to deliver it',
    scope: 'studio:read',
    params,
    answers: { 200: answer('The webhook.', oneWebhook) },
    errors: ['JOB_NOT_FOUND', 'NOT_FOUND'],
  },
  {
    method: 'post',
    path: '/api/v1/studio/jobs/{jobId}/webhook/redeliver',
    id: 'redeliverJobWebhook',
    tag,
    summary: 'Deliver the webhook of a job again, now',
    scope: 'studio:read',
    params,
    answers: { 202: answer('It is on its way.', oneWebhook) },
    errors: ['JOB_NOT_FOUND', 'NOT_FOUND', 'JOB_NOT_DONE'],
  },
];

const webhookHeaders = z.object({
  'webhook-id': z.string().meta({ description: 'The same for every attempt at one job.' }),
  'webhook-timestamp': z.string().meta({ description: 'Unix seconds of this attempt.' }),
  'webhook-signature': z
    .string()
    .meta({ description: '`v1,` and base64 of HMAC-SHA256; several with a space between.' }),
});

/** What is sent to a `webhookUrl`, by event type. */
export const webhookDescriptions: Record<string, Record<string, unknown>> = Object.fromEntries(
  (['completed', 'failed', 'canceled'] as const).map((status) => {
    const type = `studio.job.${status}`;
    const schema = z.object({ type: z.literal(type), timestamp: time, data: jobSchema });
    return [
      type,
      {
        post: {
          operationId: `${status}JobWebhook`,
          tags: [tag],
          summary: `A job is ${status}`,
          security: [],
          requestParams: { header: webhookHeaders },
          requestBody: { required: true, content: { 'application/json': { schema } } },
          responses: {
            '2XX': { description: 'Taken.' },
            410: { description: 'No more attempts at this one.' },
            default: { description: 'It is sent again later.' },
          },
        },
      },
    ];
  }),
);
