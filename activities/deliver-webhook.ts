/**
 * Attempts to deliver webhooks about jobs and account notices (Standard Webhooks). Each attempt
 * sends the current representation of the job with newly signed URLs, signs it with every active
 * secret, and records the result.
 */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { assert } from '../domain/errors.ts';
import { isId } from '../domain/ids.ts';
import { isoTime } from '../domain/json.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Outbound } from '../platform/outbound.ts';
import { startedJobOf } from '../jobs/contract.ts';
import type { JobRecord } from '../jobs/job-record.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';
import type { AccountNotices } from '../webhooks/notices.ts';
import {
  sendMessage,
  signMessage,
  type Sent,
  type WebhookEvent,
  type WebhookMessage,
} from '../webhooks/message.ts';
import type { SigningSecrets } from '../webhooks/signing-secrets.ts';
import type { WebhookName, Webhooks } from '../webhooks/webhooks.ts';

/** Services and settings of deliveries. */
export interface DeliveryDeps {
  webhooks: Webhooks;
  signingSecrets: SigningSecrets;
  outbound: Outbound;
  /** Reads a job, and returns it as callers see it (studio/job-view.ts). */
  readJob: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  showJob: (job: JobRecord) => Promise<Record<string, unknown>>;
  accountNotices: Pick<AccountNotices, 'read'>;
  telemetry: { metrics: Metrics };
  timeoutMs: number;
  retryDelaysMs: readonly number[];
}

/** Makes the activities of the webhook queue. */
export function createDeliveries(deps: DeliveryDeps) {
  return {
    /**
     * Sends the webhook once; returns if it was accepted, or is no longer to be delivered.
     * @throws ApplicationFailure with the delay before the next attempt; non-retryable after the
     * last attempt and after 410
     */
    attemptDelivery: async (name: WebhookName): Promise<void> => {
      // The message is made first, because a message that cannot be made is no attempt.
      const message = await messageOf(deps, name);
      const begun = await deps.webhooks.begin(name);
      if (!begun) return;
      const startedAtMs = performance.now();
      const { retryAfter, ...sent } = await sendMessage(deps.outbound, {
        url: begun.url,
        message,
        timeoutMs: deps.timeoutMs,
      });
      const delayMs = deps.retryDelaysMs[begun.failures];
      const retryInMs =
        sent.outcome !== 'failed' || delayMs === undefined
          ? null
          : Math.max(delayMs, parseRetryAfter(retryAfter) ?? 0);
      const durationMs = Math.round(performance.now() - startedAtMs);
      await deps.webhooks.end(name.subjectId, begun.number, { ...sent, durationMs, retryInMs });
      const { callerWebhookAttempts, callerWebhookSeconds } = deps.telemetry.metrics;
      callerWebhookAttempts.inc({ outcome: sent.outcome });
      callerWebhookSeconds.observe(durationMs / 1000);
      if (sent.outcome !== 'delivered') throw notDelivered(sent, retryInMs);
    },
    /** Records that an operator has stopped the delivery. */
    stopDelivery: (subjectId: string): Promise<void> => deps.webhooks.giveUp(subjectId),
  };
}
/** Activities of the webhook queue. */
export type Deliveries = ReturnType<typeof createDeliveries>;

/** Makes the failure of an attempt. Temporal retries it after `retryInMs`; null: never. */
function notDelivered({ outcome, status, error }: Sent, retryInMs: number | null) {
  return ApplicationFailure.create({
    message: `the receiver responded with ${status ?? error}`,
    type: outcome === 'gone' ? 'WEBHOOK_GONE' : 'WEBHOOK_NOT_DELIVERED',
    nonRetryable: retryInMs === null,
    ...(retryInMs !== null && { nextRetryDelay: retryInMs }),
    // The failure is benign, because the receiver caused it and not the worker.
    category: ApplicationFailureCategory.BENIGN,
  });
}

async function eventOf(deps: DeliveryDeps, name: WebhookName): Promise<WebhookEvent> {
  if (isId('notice', name.subjectId)) {
    const { type, createdAtMs, data } = await deps.accountNotices.read(name.subjectId);
    return { type, timestamp: isoTime(createdAtMs), data };
  }
  const startedJobId = startedJobOf(name.subjectId);
  const job = await deps.readJob(name.organizationId, startedJobId ?? name.subjectId);
  assert(job, 'a webhook is only sent for a job that exists');
  const data = await deps.showJob(job);
  if (startedJobId !== null) {
    return { type: 'studio.job.started', timestamp: isoTime(job.started_at ?? Date.now()), data };
  }
  assert(job.status !== 'open', 'the end of a job is only sent after it has ended');
  return {
    type: `studio.job.${job.status}`,
    timestamp: isoTime(job.completed_at ?? Date.now()),
    data,
  };
}

async function messageOf(deps: DeliveryDeps, name: WebhookName): Promise<WebhookMessage> {
  const event = await eventOf(deps, name);
  // A job starts once and ends once, so the message id depends on the subject only, and receivers
  // can discard duplicates.
  const id = `msg_${name.subjectId.replace(/^(job|ntc)_/, '')}`;
  return signMessage(deps.signingSecrets, name.organizationId, { id, event });
}
