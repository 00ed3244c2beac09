/**
 * Tells a caller of a job's end: an attempt, then a wait, until the receiver has taken it, does not
 * want it, or the last attempt has failed. The waits come with the attempts' outcomes, so that this
 * code reads no configuration.
 */
import {
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import { deliverNow, type WebhookDelivery } from '../jobs/contract.ts';

/** Delivers one webhook. Fails when it was not delivered; canceling it stops it. */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<{ attempts: number }> {
  let wantedNow = false;
  setHandler(deliverNow, () => {
    wantedNow = true;
  });
  const { attemptDelivery, stopDelivery } = activitiesOf(delivery);
  const { jobId, organizationId } = delivery;
  let failures = 0;
  for (let attempts = 1; ; attempts += 1) {
    try {
      wantedNow = false;
      const outcome = await attemptDelivery({ jobId, organizationId, failures });
      if (outcome.kind !== 'retry' && !wantedNow) return end(outcome.kind, attempts);
      failures += 1;
      setCurrentDetails(`${attempts} attempt(s) failed`);
      if (outcome.kind === 'retry') {
        await condition(() => wantedNow, Math.max(1, outcome.waitMs), { summary: 'next attempt' });
      }
      // Asked for again: it gets all its attempts again.
      if (wantedNow) failures = 0;
    } catch (error) {
      if (isCancellation(error)) await CancellationScope.nonCancellable(() => stopDelivery(jobId));
      throw error;
    }
  }
}

function end(kind: 'delivered' | 'gone' | 'given_up' | 'over', attempts: number) {
  if (kind === 'gone') throw failure('the receiver wants no more of it (410)', 'WEBHOOK_GONE');
  if (kind === 'given_up') throw failure('the last attempt has failed', 'WEBHOOK_NOT_DELIVERED');
  return { attempts };
}

function failure(message: string, type: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type);
}

/** What fails here is ours, not the receiver's: it is tried for days. */
function activitiesOf({ taskQueue, organizationId }: WebhookDelivery) {
  return proxyActivities<Pick<Activities, 'attemptDelivery' | 'stopDelivery'>>({
    taskQueue,
    startToCloseTimeout: '90s',
    scheduleToCloseTimeout: '7 days',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1 minute' },
    priority: { fairnessKey: organizationId },
    summary: 'attempt',
  });
}
