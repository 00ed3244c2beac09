/** Sets deliveries going: when one is asked for again, and for those that nobody seems to make. */
import type { Client } from '@temporalio/client';
import {
  deliverNow,
  deliveryIdOf,
  studioTaskQueue,
  webhookDeliveryType,
  webhookTaskQueue,
} from '../../jobs/contract.ts';
import { forEachAlone, type Isolated } from '../../platform/isolation.ts';
import type { Logger } from '../../platform/logger.ts';
import type { WebhookName, Webhooks } from './webhooks.ts';

interface RelayDeps {
  client: Client;
  webhooks: Webhooks;
  logger: Logger;
  taskQueuePrefix: string;
}

/** See the file's head. */
export interface WebhookRelay {
  /** Delivers now, whatever became of it before; one that is under way is hurried. */
  redeliver: (name: WebhookName) => Promise<void>;
  /** Starts what is forsaken. */
  resume: () => Promise<Isolated>;
}

const startTimeoutMs = 10_000;

/** See `WebhookRelay`. */
export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { client, webhooks, logger } = deps;

  function optionsOf(name: WebhookName) {
    return {
      workflowId: deliveryIdOf(name.jobId),
      taskQueue: studioTaskQueue(deps.taskQueuePrefix),
      args: [{ ...name, taskQueue: webhookTaskQueue(deps.taskQueuePrefix) }],
      staticSummary: `webhook of ${name.jobId}`,
    };
  }

  async function resumeOne(name: WebhookName): Promise<void> {
    await client.withDeadline(Date.now() + startTimeoutMs, () =>
      client.workflow.start(webhookDeliveryType, {
        ...optionsOf(name),
        workflowIdConflictPolicy: 'USE_EXISTING',
      }),
    );
    await webhooks.attended(name.jobId);
    logger.info({ jobId: name.jobId }, 'webhook.resumed');
  }

  return {
    async redeliver(name) {
      await webhooks.renew(name.jobId);
      try {
        await client.withDeadline(Date.now() + startTimeoutMs, () =>
          client.workflow.signalWithStart(webhookDeliveryType, {
            ...optionsOf(name),
            signal: deliverNow,
          }),
        );
      } catch (error) {
        // It is written down as wanted: the sweeper starts it once it can.
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
