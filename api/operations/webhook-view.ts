/** How a webhook and its attempts are shown, to callers and to operators. */
import { z } from 'zod';
import type {
  ListedWebhook,
  WebhookName,
  WebhookRecord,
  Webhooks,
} from '../../activities/webhooks/webhooks.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTimes } from '../../domain/iso-time.ts';
import type { Composition } from '../composition.ts';
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
  return webhookSchema.parse({ ...isoTimes(webhook), deliveries: attempts.map(isoTimes) });
}

/** A webhook in a list, with what became of its last attempt. */
export const listedWebhook = webhookLine
  .extend({ lastStatus: z.int().nullable(), lastError: z.string().nullable() })
  .meta({ id: 'ListedWebhook' });

/** See `listedWebhook`. */
export function listedView(webhook: ListedWebhook): z.infer<typeof listedWebhook> {
  return listedWebhook.parse(isoTimes(webhook));
}

/** The webhook of a job. @throws GatewayError NOT_FOUND */
export async function webhookOf(
  webhooks: Pick<Webhooks, 'find'>,
  name: WebhookName,
): Promise<WebhookRecord> {
  const webhook = await webhooks.find(name);
  if (!webhook) throw new GatewayError('NOT_FOUND', 'This job has no webhook.');
  return webhook;
}

/** Has a webhook delivered again; shows where it stands then. */
export async function redeliver(
  { webhooks, webhookRelay }: Pick<Composition, 'webhooks' | 'webhookRelay'>,
  webhook: WebhookRecord,
): Promise<z.infer<typeof webhookSchema>> {
  await webhookRelay.redeliver(webhook);
  return showWebhook(webhooks, await webhookOf(webhooks, webhook));
}
