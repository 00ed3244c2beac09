/**
 * Delivers a webhook to a caller by one activity, which Temporal retries until the receiver has
 * accepted it. The failures of the activity carry the retry delays, so the workflow reads no
 * configuration.
 */
import { CancellationScope, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import type { WebhookDelivery } from '../jobs/contract.ts';

/**
 * Delivers one webhook. Fails if the webhook was not delivered; a cancel of the workflow stops the
 * delivery.
 */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<void> {
  const { subjectId, organizationId, taskQueue } = delivery;
  const { attemptDelivery, stopDelivery } = proxyActivities<
    Pick<Activities, 'attemptDelivery' | 'stopDelivery'>
  >({
    taskQueue,
    startToCloseTimeout: '90s',
    // Limit longer than all retry delays together. The sweeper restarts a delivery that ends
    // without a verdict.
    scheduleToCloseTimeout: '7 days',
    // Retry policy for failures of the gateway itself; a failure of the receiver carries its own
    // delay.
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1 minute' },
    priority: { fairnessKey: organizationId },
    summary: 'webhook',
  });
  try {
    await attemptDelivery({ subjectId, organizationId });
  } catch (error) {
    if (isCancellation(error))
      await CancellationScope.nonCancellable(() => stopDelivery(subjectId));
    throw error;
  }
}
