/**
 * Creates the activities that deliver webhooks about jobs, bulk jobs and account notices (Standard Webhooks).
 * Each attempt sends the current representation of the job with newly signed URLs, signs the
 * message with every active secret, and records the result.
 */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { assert } from '../domain/errors.ts';
import { isId } from '../domain/ids.ts';
import { isoTime } from '../domain/json.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Outbound } from '../platform/outbound.ts';
import { chatJobType, readSubjectId } from '../domain/job-contract.ts';
import type { JobRecord } from '../domain/job-record.ts';
import { parseRetryAfter } from '../providers/error-responses.ts';
import type { AccountNotices } from '../webhooks/notices.ts';
import {
  sendMessage,
  signMessage,
  type SendResult,
  type WebhookEvent,
  type WebhookMessage,
} from '../webhooks/message.ts';
import type { SigningSecrets } from '../webhooks/signing-secrets.ts';
import type { WebhookIds, Webhooks } from '../webhooks/webhooks.ts';

/** Services and settings of webhook deliveries. */
export interface DeliveryDeps {
  webhooks: Webhooks;
  signingSecrets: SigningSecrets;
  outbound: Outbound;
  /** Reads a job; null if the organization has no such job. */
  readJob: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  /** Returns the representation of a job in API responses (studio/jobs/job-view.ts). */
  showJob: (job: JobRecord) => Promise<Record<string, unknown>>;
  accountNotices: Pick<AccountNotices, 'read'>;
  /** Returns the event of a bulk job. */
  readBulkEvent: (organizationId: string, eventId: string) => Promise<WebhookEvent>;
  telemetry: { metrics: Metrics };
  timeoutMs: number;
  retryDelaysMs: readonly number[];
}

/** Creates the activities of the webhook task queue. */
export function createDeliveries(deps: DeliveryDeps) {
  return {
    /**
     * Sends a webhook once. Returns without an error if the receiver accepted the webhook, or if
     * the webhook no longer has to be delivered.
     * @throws ApplicationFailure with the delay before the next attempt. After the last attempt and
     * after a response with status 410, it is not retryable
     */
    attemptDelivery: async (ids: WebhookIds): Promise<void> => {
      // The message is built before the attempt is recorded, so that an error while building it
      // does not count as an attempt.
      const message = await buildMessage(deps, ids);
      const attempt = await deps.webhooks.beginAttempt(ids);
      if (!attempt) return;
      const startedAtMs = performance.now();
      const { retryAfter, ...sendResult } = await sendMessage(deps.outbound, {
        url: attempt.url,
        message,
        timeoutMs: deps.timeoutMs,
      });
      const configuredDelayMs = deps.retryDelaysMs[attempt.failures];
      const retryInMs =
        sendResult.outcome !== 'failed' || configuredDelayMs === undefined
          ? null
          : Math.max(configuredDelayMs, parseRetryAfter(retryAfter) ?? 0);
      const durationMs = Math.round(performance.now() - startedAtMs);
      await deps.webhooks.endAttempt(ids.subjectId, attempt.number, {
        ...sendResult,
        durationMs,
        retryInMs,
      });
      const { callerWebhookAttempts, callerWebhookSeconds } = deps.telemetry.metrics;
      callerWebhookAttempts.inc({ outcome: sendResult.outcome });
      callerWebhookSeconds.observe(durationMs / 1000);
      if (sendResult.outcome !== 'delivered') throw createAttemptFailure(sendResult, retryInMs);
    },
    /** Records that an operator has stopped the delivery of a webhook. */
    stopDelivery: (subjectId: string): Promise<void> => deps.webhooks.stopDelivery(subjectId),
  };
}
export type Deliveries = ReturnType<typeof createDeliveries>;

/**
 * Creates the failure of an attempt. Temporal makes the next attempt after `retryInMs`, or none if
 * `retryInMs` is null.
 */
function createAttemptFailure({ outcome, status, error }: SendResult, retryInMs: number | null) {
  return ApplicationFailure.create({
    message:
      status === null
        ? `the request to the receiver failed: ${error}`
        : `the receiver responded with ${status}${error === null ? '' : `: ${error}`}`,
    type: outcome === 'gone' ? 'WEBHOOK_GONE' : 'WEBHOOK_NOT_DELIVERED',
    nonRetryable: retryInMs === null,
    ...(retryInMs !== null && { nextRetryDelay: retryInMs }),
    // The failure is benign, because the receiver caused it, not the worker.
    category: ApplicationFailureCategory.BENIGN,
  });
}

async function readEvent(
  deps: DeliveryDeps,
  organizationId: string,
  eventId: string,
): Promise<WebhookEvent> {
  if (isId('notice', eventId)) {
    const { type, createdAtMs, data } = await deps.accountNotices.read(eventId);
    return { type, timestamp: isoTime(createdAtMs), data };
  }
  if (isId('bulkEvent', eventId)) return deps.readBulkEvent(organizationId, eventId);
  const { jobId, event, stepId } = readSubjectId(eventId);
  const job = await deps.readJob(organizationId, jobId);
  assert(job, 'cannot send a webhook for a job that does not exist');
  const isEnd = event === 'ended';
  assert(!isEnd || job.status !== 'open', 'cannot report the end of a job that is still open');
  const waitsSinceMs = stepId === null ? null : job.approvals?.[stepId]?.sinceMs;
  const timeMs = waitsSinceMs ?? (isEnd ? job.completedAtMs : job.startedAtMs) ?? Date.now();
  return {
    type: `${job.type === chatJobType ? 'chat' : 'studio.job'}.${isEnd ? job.status : event}`,
    timestamp: isoTime(timeMs),
    data: await deps.showJob(job),
  };
}

async function buildMessage(deps: DeliveryDeps, ids: WebhookIds): Promise<WebhookMessage> {
  const { subjectId, organizationId } = ids;
  const { eventId, endpointId } = readSubjectId(subjectId);
  const event = await readEvent(deps, organizationId, eventId);
  // All attempts to report an event have the same message id, so that receivers can discard
  // duplicates.
  const id = `msg_${eventId.replace(/^(job|ntc|evt)_/, '')}`;
  return signMessage(deps.signingSecrets, endpointId ?? organizationId, { id, event });
}
