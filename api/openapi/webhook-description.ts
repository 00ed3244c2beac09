/** OpenAPI descriptions of the webhooks that callers receive about their jobs and account. */
import { z } from 'zod';
import { noticeData } from '../../webhooks/notices.ts';
import { jobSchema } from '../../studio/jobs/job-view.ts';
import { time } from '../endpoints/fields.ts';

const webhookHeaders = z.object({
  'webhook-id': z
    .string()
    .meta({ description: 'Id of the webhook. It is the same when the webhook is sent again.' }),
  'webhook-timestamp': z.string().meta({ description: 'Unix time of this attempt, in seconds.' }),
  'webhook-signature': z.string().meta({
    description:
      '`v1,` followed by an HMAC-SHA256 in base64. Several signatures are separated by spaces.',
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
    summary: 'A job started: a provider accepted its first call',
    data: jobSchema,
  },
  {
    type: 'studio.job.awaiting_approval',
    operationId: 'awaitingApprovalJobWebhook',
    summary: 'A step of a pipeline waits for a decision',
    data: jobSchema,
  },
  ...(['completed', 'failed', 'canceled'] as const).map((status) => ({
    type: `studio.job.${status}`,
    operationId: `${status}JobWebhook`,
    summary: `A job is ${status}`,
    data: jobSchema,
  })),
  ...(['completed', 'failed', 'canceled'] as const).map((status) => ({
    type: `chat.${status}`,
    operationId: `${status}ChatWebhook`,
    summary: `A chat job is ${status}`,
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
    summary: 'A key has used 80 % of its limit',
    data: noticeData['key.limit.near'],
  },
  {
    type: 'key.limit.reached',
    operationId: 'reachedKeyLimitWebhook',
    summary: 'A key has reached its limit, or a request was rejected because of the limit',
    data: noticeData['key.limit.reached'],
  },
  {
    type: 'end_user.limit.near',
    operationId: 'nearEndUserLimitWebhook',
    summary: 'An end user has used 80 % of its limit',
    data: noticeData['end_user.limit.near'],
  },
  {
    type: 'end_user.limit.reached',
    operationId: 'reachedEndUserLimitWebhook',
    summary: 'An end user has reached its limit, or a request was rejected because of the limit',
    data: noticeData['end_user.limit.reached'],
  },
];

/** OpenAPI descriptions of all webhooks, by event type. */
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
            410: { description: 'The webhook will not be sent again.' },
            default: { description: 'The webhook will be sent again later.' },
          },
        },
      },
    ];
  }),
);
