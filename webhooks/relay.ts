/**
 * Relay of webhooks: starts deliveries that are requested again, and deliveries that no workflow
 * runs.
 */
import type { Client } from '@temporalio/client';
import type { WorkflowIdConflictPolicy } from '@temporalio/common';
import {
  deliveryIdOf,
  studioTaskQueue,
  webhookDeliveryType,
  webhookTaskQueue,
} from '../jobs/contract.ts';
import { forEachAlone, type Isolated } from '../platform/isolation.ts';
import type { Logger } from '../platform/logger.ts';
import type { WebhookIds, Webhooks } from './webhooks.ts';

interface RelayDeps {
  client: Client;
  webhooks: Webhooks;
  logger: Logger;
  taskQueuePrefix: string;
}

/**
 * Functions that start deliveries: those that are requested again, and those that no workflow seems
 * to run.
 */
export interface WebhookRelay {
  /**
   * Starts a new delivery with the full number of attempts; a delivery that is running or waiting
   * is replaced.
   */
  redeliver: (name: WebhookIds) => Promise<void>;
  /**
   * Starts the deliveries that no workflow seems to run; returns the numbers of started and failed
   * ones.
   */
  resume: () => Promise<Isolated>;
}

const startTimeoutMs = 10_000;

/** Makes the relay of webhooks. */
export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { client, webhooks, logger } = deps;

  function start(name: WebhookIds, workflowIdConflictPolicy: WorkflowIdConflictPolicy) {
    return client.withDeadline(Date.now() + startTimeoutMs, () =>
      client.workflow.start(webhookDeliveryType, {
        workflowId: deliveryIdOf(name.subjectId),
        taskQueue: studioTaskQueue(deps.taskQueuePrefix),
        args: [{ ...name, taskQueue: webhookTaskQueue(deps.taskQueuePrefix) }],
        staticSummary: `webhook of ${name.subjectId}`,
        workflowIdConflictPolicy,
      }),
    );
  }

  async function resumeOne(name: WebhookIds): Promise<void> {
    await start(name, 'USE_EXISTING');
    await webhooks.deliveryStarted(name.subjectId);
    logger.info({ subjectId: name.subjectId }, 'webhook.resumed');
  }

  return {
    async redeliver(name) {
      await webhooks.renew(name.subjectId);
      try {
        await start(name, 'TERMINATE_EXISTING');
      } catch (error) {
        // The sweeper starts the delivery later, because the row of the webhook has the state
        // `delivering`.
        logger.warn({ error, subjectId: name.subjectId }, 'webhook.not_started');
      }
    },
    async resume() {
      const overdue = await webhooks.overdue();
      const named = overdue.map((name) => ({ ...name, id: name.subjectId }));
      return forEachAlone(named, resumeOne, { subject: 'webhook', logger });
    },
  };
}
