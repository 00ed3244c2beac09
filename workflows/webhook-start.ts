/** Starts the workflows that deliver the webhooks of a job. */
import { log, ParentClosePolicy, startChild } from '@temporalio/workflow';
import {
  deliveryWorkflowId,
  startSubjectId,
  webhookDeliveryType,
  type WebhookDelivery,
} from '../domain/job-contract.ts';
import type { JobPlan } from '../domain/job-plan.ts';

/**
 * Creates the function that starts the delivery of the webhook `studio.job.started`. Only the first
 * call of this function has an effect.
 */
export function createStartReport(plan: JobPlan): () => Promise<void> {
  let delivery: Promise<void> | undefined;
  return () => (delivery ??= startWebhookDelivery(plan, startSubjectId(plan.jobId)));
}

/**
 * Starts the delivery of a webhook, by default of the one that reports the end of the job. Waits
 * until the child workflow has started, because Temporal discards it if its parent ends first. If
 * the delivery about the end of a job cannot be started, the sweeper starts it later.
 */
export async function startWebhookDelivery(plan: JobPlan, subjectId = plan.jobId): Promise<void> {
  if (!plan.webhook) return;
  const { organizationId } = plan;
  const { taskQueue } = plan.webhook;
  const delivery: WebhookDelivery = { subjectId, organizationId, taskQueue };
  try {
    await startChild(webhookDeliveryType, {
      workflowId: deliveryWorkflowId(subjectId),
      args: [delivery],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: `webhook of ${subjectId}`,
      priority: { fairnessKey: organizationId },
    });
  } catch (error) {
    log.warn('the delivery of the webhook was not started', { error: String(error) });
  }
}
