/**
 * Stores verified provider notifications and signals them to workflows. If a workflow cannot be
 * signaled now, the API responds with 5xx, so that the provider sends the notification again. If no
 * notification arrives, the workflow checks the call after a timer.
 */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { providerNotification, jobWorkflowId } from '../domain/job-contract.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { InboxNotification, NotificationInbox } from './notification-inbox.ts';

interface RelayDeps {
  client: Client;
  inbox: NotificationInbox;
  metrics: Metrics;
  logger: Logger;
}

/** Timeout of the signal in milliseconds. The provider gives up after about 15 seconds. */
const signalTimeoutMs = 5000;

/** Creates the relay that stores notifications and signals them to workflows. */
export function createNotificationRelay(deps: RelayDeps) {
  const { client, inbox, logger } = deps;
  const { notifications, notificationSeconds } = deps.metrics;

  /** Signals a notification to the workflow of its job. Returns false if the workflow has ended. */
  async function signal({ jobId, callIndex, operationId }: InboxNotification): Promise<boolean> {
    const handle = client.workflow.getHandle(jobWorkflowId(jobId));
    try {
      await client.withDeadline(Date.now() + signalTimeoutMs, () =>
        handle.signal(providerNotification, { callIndex, operationId }),
      );
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  return {
    /**
     * Stores a verified notification and signals it to its workflow, unless it was already
     * signaled.
     * @throws Error if it cannot be stored or signaled now; the provider then sends it again
     */
    async receive(notification: InboxNotification): Promise<void> {
      const { provider, jobId, callIndex } = notification;
      const startedAtMs = performance.now();
      const { deliveries, state } = await inbox.add(notification);
      notifications.inc({ provider, outcome: deliveries === 1 ? 'new' : 'repeated' });
      if (state !== 'received') return;
      if (await signal(notification)) {
        await inbox.mark(notification, 'delivered');
        notificationSeconds.observe({ provider }, (performance.now() - startedAtMs) / 1000);
        return;
      }
      logger.warn({ jobId, callIndex }, 'provider_notification.late');
      await inbox.mark(notification, 'late');
      notifications.inc({ provider, outcome: 'late' });
    },
  };
}
