/**
 * Delivers a webhook to a caller: one activity, which Temporal retries until the receiver has accepted it. The
 * waits between attempts come with the failures of the activity, so this code reads no configuration.
 */
import { CancellationScope, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import type { WebhookDelivery } from '../jobs/contract.ts';

/** Delivers one webhook. Fails when it was not delivered; canceling the workflow stops the delivery. */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<void> {
  const { jobId, organizationId, taskQueue } = delivery;
  const { attemptDelivery, stopDelivery } = proxyActivities<
    Pick<Activities, 'attemptDelivery' | 'stopDelivery'>
  >({
    taskQueue,
    startToCloseTimeout: '90s',
    // Longer than all waits together; the sweeper starts a delivery again that ends without a verdict.
    scheduleToCloseTimeout: '7 days',
    // For failures of the gateway itself; a failure of the receiver names its own delay.
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1 minute' },
    priority: { fairnessKey: organizationId },
    summary: 'webhook',
  });
  try {
    await attemptDelivery({ jobId, organizationId });
  } catch (error) {
    if (isCancellation(error)) await CancellationScope.nonCancellable(() => stopDelivery(jobId));
    throw error;
  }
}
