/** Start of the delivery of a caller webhook, about the start or the end of a job. */
import { log, ParentClosePolicy, startChild } from '@temporalio/workflow';
import {
  deliveryIdOf,
  startSubjectOf,
  webhookDeliveryType,
  type WebhookDelivery,
} from '../jobs/contract.ts';
import type { JobPlan } from '../jobs/job-plan.ts';

/** Makes the function that starts the delivery of the event `started`, at its first call. */
export function createStartReport(plan: JobPlan): () => Promise<void> {
  let reported: Promise<void> | undefined;
  return () => (reported ??= startWebhookDelivery(plan, startSubjectOf(plan.jobId)));
}

/**
 * Starts the delivery of the webhook. The start is awaited, because a server drops a child workflow
 * whose parent ends first. If the delivery of the end of a job cannot be started, the sweeper
 * starts it.
 */
export async function startWebhookDelivery(plan: JobPlan, subjectId = plan.jobId): Promise<void> {
  if (!plan.webhook) return;
  const { organizationId } = plan;
  const { taskQueue } = plan.webhook;
  const delivery: WebhookDelivery = { subjectId, organizationId, taskQueue };
  try {
    await startChild(webhookDeliveryType, {
      workflowId: deliveryIdOf(subjectId),
      args: [delivery],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: `webhook of ${subjectId}`,
      priority: { fairnessKey: organizationId },
    });
  } catch (error) {
    log.warn('the delivery of the webhook was not started', { error: String(error) });
  }
}
