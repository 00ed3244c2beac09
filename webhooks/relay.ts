/** Relay of webhooks: starts deliveries, and restarts those that an operator repeats or that no workflow runs. */
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
import type { WebhookName, Webhooks } from './webhooks.ts';

interface RelayDeps {
  client: Client;
  webhooks: Webhooks;
  logger: Logger;
  taskQueuePrefix: string;
}

/** Starts of webhook deliveries. */
export interface WebhookRelay {
  /** Starts a delivery with all its attempts; a running or waiting delivery is replaced. */
  redeliver: (name: WebhookName) => Promise<void>;
  /** Starts the deliveries that no workflow runs. */
  resume: () => Promise<Isolated>;
}

const startTimeoutMs = 10_000;

/** Makes the relay. */
export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { client, webhooks, logger } = deps;

  function start(name: WebhookName, workflowIdConflictPolicy: WorkflowIdConflictPolicy) {
    return client.withDeadline(Date.now() + startTimeoutMs, () =>
      client.workflow.start(webhookDeliveryType, {
        workflowId: deliveryIdOf(name.jobId),
        taskQueue: studioTaskQueue(deps.taskQueuePrefix),
        args: [{ ...name, taskQueue: webhookTaskQueue(deps.taskQueuePrefix) }],
        staticSummary: `webhook of ${name.jobId}`,
        workflowIdConflictPolicy,
      }),
    );
  }

  async function resumeOne(name: WebhookName): Promise<void> {
    await start(name, 'USE_EXISTING');
    await webhooks.attended(name.jobId);
    logger.info({ jobId: name.jobId }, 'webhook.resumed');
  }

  return {
    async redeliver(name) {
      await webhooks.renew(name.jobId);
      try {
        await start(name, 'TERMINATE_EXISTING');
      } catch (error) {
        // If the start fails, the sweeper starts the delivery by its row.
        logger.warn({ error, jobId: name.jobId }, 'webhook.not_started');
      }
    },
    async resume() {
      const forsaken = await webhooks.forsaken();
      const named = forsaken.map((name) => ({ ...name, id: name.jobId }));
      return forEachAlone(named, resumeOne, { subject: 'webhook', logger });
    },
  };
}
