/** How a webhook and its attempts are shown, to callers and to operators. */
import { z } from 'zod';
import type { ListedWebhook, WebhookRecord, Webhooks } from '../../activities/webhooks/webhooks.ts';
import { isoTimes } from '../../domain/iso-time.ts';
import { time } from './fields.ts';

const attemptsShownMax = 50;

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

/** A webhook without its attempts. */
export const webhookLine = z.object({
  jobId: z.string(),
  url: z.url(),
  state: z.enum(['waiting', 'delivering', 'delivered', 'gone', 'failed']),
  attempts: z.int(),
  nextAttemptAt: time.nullable(),
  createdAt: time,
  updatedAt: time,
});

/** A webhook with its newest attempts. */
export const webhookSchema = webhookLine
  .extend({
    deliveries: z.array(deliverySchema).meta({ description: 'The newest 50, newest first.' }),
  })
  .meta({ id: 'Webhook' });

/** See `webhookSchema`. */
export async function showWebhook(
  webhooks: Pick<Webhooks, 'attempts'>,
  webhook: WebhookRecord,
): Promise<z.infer<typeof webhookSchema>> {
  const attempts = await webhooks.attempts(webhook.jobId, attemptsShownMax);
  return { ...webhookView(webhook), deliveries: attempts.map(isoTimes) };
}

/** A webhook in a list, with what became of its last attempt. */
export const listedWebhook = webhookLine
  .extend({ lastStatus: z.int().nullable(), lastError: z.string().nullable() })
  .meta({ id: 'ListedWebhook' });

/** See `listedWebhook`. */
export function listedView(webhook: ListedWebhook): z.infer<typeof listedWebhook> {
  const { lastStatus, lastError } = webhook;
  return { ...webhookView(webhook), lastStatus, lastError };
}

/** See `webhookLine`. */
function webhookView(webhook: WebhookRecord): z.infer<typeof webhookLine> {
  const { jobId, url, state, attempts, nextAttemptAt, createdAt, updatedAt } = isoTimes(webhook);
  return { jobId, url, state, attempts, nextAttemptAt, createdAt, updatedAt };
}
