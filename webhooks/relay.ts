/**
 * Starts the workflows that deliver webhooks: when a redelivery is requested, and when no workflow
 * delivers a webhook that is due.
 */
import type { Client } from '@temporalio/client';
import type { WorkflowIdConflictPolicy } from '@temporalio/common';
import {
  deliveryWorkflowId,
  studioTaskQueue,
  webhookDeliveryType,
  webhookTaskQueue,
} from '../domain/job-contract.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import type { Logger } from '../platform/logger.ts';
import { callTemporal } from '../platform/temporal.ts';
import type { DueWebhook, WebhookChoice, WebhookIds, Webhooks } from './webhooks.ts';

interface RelayDeps {
  client: Client;
  webhooks: Webhooks;
  logger: Logger;
  taskQueuePrefix: string;
}

/** Starts webhook deliveries as Temporal workflows. */
export interface WebhookRelay {
  /**
   * Starts new deliveries of a job's webhooks with the full number of attempts. Replaces deliveries
   * that are in progress.
   */
  redeliver: (job: WebhookChoice) => Promise<void>;
  /**
   * Starts the deliveries of due webhooks that no workflow seems to deliver. Returns how many were
   * started and how many failed.
   */
  resume: () => Promise<IsolationReport>;
}

/** Creates the functions that start webhook deliveries. */
export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { client, webhooks, logger } = deps;

  function startDelivery(ids: WebhookIds, workflowIdConflictPolicy: WorkflowIdConflictPolicy) {
    return callTemporal(client, () =>
      client.workflow.start(webhookDeliveryType, {
        workflowId: deliveryWorkflowId(ids.subjectId),
        taskQueue: studioTaskQueue(deps.taskQueuePrefix),
        args: [{ ...ids, taskQueue: webhookTaskQueue(deps.taskQueuePrefix) }],
        staticSummary: `webhook of ${ids.subjectId}`,
        workflowIdConflictPolicy,
        priority: { fairnessKey: ids.organizationId },
      }),
    );
  }

  async function resumeOne({ replaces, ...ids }: DueWebhook): Promise<void> {
    await startDelivery(ids, replaces ? 'TERMINATE_EXISTING' : 'USE_EXISTING');
    await webhooks.recordDeliveryStart(ids.subjectId);
    logger.info({ subjectId: ids.subjectId }, 'webhook.resumed');
  }

  return {
    async redeliver(job) {
      for (const { subjectId, organizationId } of await webhooks.findAll(job)) {
        await webhooks.resetDelivery(subjectId);
        try {
          await startDelivery({ subjectId, organizationId }, 'TERMINATE_EXISTING');
        } catch (error) {
          // The sweeper starts the delivery later, because the webhook is recorded as `delivering`.
          logger.warn({ error, subjectId }, 'webhook.not_started');
        }
      }
    },
    async resume() {
      await webhooks.deleteUndeliverable();
      const overdueWebhooks = await webhooks.listOverdue();
      const subjects = overdueWebhooks.map((ids) => ({ ...ids, id: ids.subjectId }));
      return forEachIsolated(subjects, resumeOne, { subject: 'webhook', logger });
    },
  };
}
