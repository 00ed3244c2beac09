/**
 * Delivers a webhook to a caller with one activity, which Temporal retries until the receiver
 * accepts the webhook. The failures of the activity contain the retry delays, so the workflow needs
 * no configuration.
 */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  log,
  ParentClosePolicy,
  startChild,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import {
  type WebhookDelivery,
  deliveryWorkflowId,
  readSubjectId,
  startSubjectId,
  webhookDeliveryType,
} from '../domain/job-contract.ts';
import type { JobPlan } from '../domain/job-plan.ts';

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

/**
 * Creates the function that starts the delivery of the webhook `studio.job.started`. Only the first
 * call of this function has an effect.
 */
export function createStartReport(plan: JobPlan): () => Promise<void> {
  let delivery: Promise<void> | undefined;
  return () => (delivery ??= startWebhookDelivery(plan, startSubjectId(plan.jobId)));
}

/**
 * Starts the deliveries of the webhooks that report an event, by default the end of the job. Waits
 * until the child workflows have started, because Temporal discards them if their parent ends first.
 * If a delivery about the end of a job cannot be started, the sweeper starts it later.
 */
export async function startWebhookDelivery(plan: JobPlan, eventId = plan.jobId): Promise<void> {
  const subjectIds = plan.webhook?.subjectIds ?? [eventId];
  const reporting = subjectIds.filter((id) => readSubjectId(id).eventId === eventId);
  await startDeliveries(plan, reporting);
}

/** Starts the deliveries of webhooks of a job. */
export async function startDeliveries(
  { organizationId, webhook }: JobPlan,
  subjectIds: readonly string[],
): Promise<void> {
  if (!webhook) return;
  const { taskQueue: webhookTaskQueue } = webhook;
  await Promise.all(
    subjectIds.map((subjectId) => deliverWebhook({ organizationId, subjectId, webhookTaskQueue })),
  );
}

/** Starts the delivery of a webhook. If that fails, the sweeper starts it later. */
export async function deliverWebhook({
  subjectId,
  organizationId,
  webhookTaskQueue: taskQueue,
}: {
  subjectId: string;
  organizationId: string;
  webhookTaskQueue: string;
}): Promise<void> {
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
