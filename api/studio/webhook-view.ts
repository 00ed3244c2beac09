/** How a webhook and its attempts are shown, to callers and to operators. */
import type {
  WebhookAttempt,
  WebhookRecord,
  Webhooks,
} from '../../activities/webhooks/webhooks.ts';
import { isoTime } from '../../domain/iso-time.ts';

const attemptsShownMax = 50;

/** A webhook with its newest attempts. */
export async function showWebhook(
  webhooks: Webhooks,
  webhook: WebhookRecord,
): Promise<Record<string, unknown>> {
  const attempts = await webhooks.attempts(webhook.jobId, attemptsShownMax);
  return { ...webhookView(webhook), deliveries: attempts.map(attemptView) };
}

/** A webhook without its attempts. */
export function webhookView(webhook: WebhookRecord): Record<string, unknown> {
  return {
    jobId: webhook.jobId,
    url: webhook.url,
    state: webhook.state,
    attempts: webhook.attempts,
    nextAttemptAt: isoTime(webhook.nextAttemptAtMs),
    createdAt: isoTime(webhook.createdAtMs),
    updatedAt: isoTime(webhook.updatedAtMs),
  };
}

function attemptView({ startedAtMs, ...attempt }: WebhookAttempt): Record<string, unknown> {
  return { ...attempt, startedAt: isoTime(startedAtMs) };
}
