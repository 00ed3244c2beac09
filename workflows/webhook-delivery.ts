/**
 * Delivers a webhook to a caller with one activity, which Temporal retries until the receiver
 * accepts the webhook. The failures of the activity contain the retry delays, so the workflow needs
 * no configuration.
 */
import { CancellationScope, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import type { WebhookDelivery } from '../domain/job-contract.ts';

/**
 * Delivers one webhook. Fails if the webhook could not be delivered. Canceling the workflow stops
 * the delivery.
 */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<void> {
  const { subjectId, organizationId, taskQueue } = delivery;
  const { attemptDelivery, stopDelivery } = proxyActivities<
    Pick<Activities, 'attemptDelivery' | 'stopDelivery'>
  >({
    taskQueue,
    startToCloseTimeout: '90s',
    // This timeout is longer than the sum of all retry delays. If it ends a delivery, the sweeper
    // starts the delivery again.
    scheduleToCloseTimeout: '7 days',
    // This policy applies to failures of the gateway itself. A failure caused by the receiver
    // contains its own retry delay.
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
