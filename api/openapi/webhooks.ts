/** OpenAPI descriptions of caller webhooks and account notices. */
import { z } from 'zod';
import { noticeData } from '../../webhooks/notices.ts';
import { jobSchema } from '../../studio/job-resource.ts';
import { time } from '../endpoints/fields.ts';

const webhookHeaders = z.object({
  'webhook-id': z
    .string()
    .meta({ description: 'Id that is the same for all attempts of one job or notice.' }),
  'webhook-timestamp': z.string().meta({ description: 'Unix seconds of this attempt.' }),
  'webhook-signature': z.string().meta({
    description: '`v1,` and a base64 HMAC-SHA256; several signatures are separated by spaces.',
  }),
});

interface WebhookEvent {
  type: string;
  operationId: string;
  summary: string;
  data: z.ZodType;
}

const webhookEvents: WebhookEvent[] = [
  {
    type: 'studio.job.started',
    operationId: 'startedJobWebhook',
    summary: 'A provider has accepted the first call of a job',
    data: jobSchema,
  },
  ...(['completed', 'failed', 'canceled'] as const).map((status) => ({
    type: `studio.job.${status}`,
    operationId: `${status}JobWebhook`,
    summary: `A job is ${status}`,
    data: jobSchema,
  })),
  {
    type: 'account.balance.low',
    operationId: 'lowBalanceWebhook',
    summary: 'The balance is low',
    data: noticeData['account.balance.low'],
  },
  {
    type: 'key.limit.near',
    operationId: 'nearKeyLimitWebhook',
    summary: '80 % of the limit of a key is used',
    data: noticeData['key.limit.near'],
  },
  {
    type: 'key.limit.reached',
    operationId: 'reachedKeyLimitWebhook',
    summary: 'The limit of a key is reached, or a request was rejected because of it',
    data: noticeData['key.limit.reached'],
  },
];

/** Webhooks to a `webhookUrl` and to the URL of account notices, by event type. */
export const webhookDescriptions: Record<string, Record<string, unknown>> = Object.fromEntries(
  webhookEvents.map(({ type, operationId, summary, data }) => {
    const schema = z.object({ type: z.literal(type), timestamp: time, data });
    return [
      type,
      {
        post: {
          operationId,
          tags: ['Webhooks'],
          summary,
          security: [],
          requestParams: { header: webhookHeaders },
          requestBody: { required: true, content: { 'application/json': { schema } } },
          responses: {
            '2XX': { description: 'The webhook was received.' },
            410: { description: 'No more attempts are made.' },
            default: { description: 'The webhook is sent again later.' },
          },
        },
      },
    ];
  }),
);
