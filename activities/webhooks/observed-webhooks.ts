/** Deliveries to callers, with their attempts counted and timed. */
import type { Metrics } from '../../platform/metrics.ts';
import type { Webhooks } from './webhooks.ts';

/** Observes webhooks: an attempt is counted once its end is written down. */
export function observeWebhooks(webhooks: Webhooks, metrics: Metrics): Webhooks {
  return {
    ...webhooks,
    async end(jobId, number, end) {
      await webhooks.end(jobId, number, end);
      metrics.callerWebhookAttempts.inc({ outcome: end.outcome });
      metrics.callerWebhookSeconds.observe(end.durationMs / 1000);
    },
  };
}
