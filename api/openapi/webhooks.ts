/** Webhooks of callers, described: what is sent to a `webhookUrl` (docs/webhooks.md). */
import { z } from 'zod';
import { jobSchema } from '../../studio/job-view.ts';
import { time } from '../operations/fields.ts';

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
          tags: ['Webhooks'],
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
