/** Tells workflows of notifications: at once when one comes in, and again for those that were not heard. */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { providerNotification, workflowIdOf } from '../../jobs/contract.ts';
import { correlation, withCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Inbox, InboxNotification } from './notifications.ts';
import type { LateOutcomes } from '../jobs/late-outcomes.ts';

interface RelayDeps {
  client: Client;
  inbox: Inbox;
  logger: Logger;
  /** Looks at what a notification means that came when its workflow had ended. */
  outcomes: LateOutcomes;
}

/** Passes notifications on. */
export interface NotificationRelay {
  /** Never throws: what was not heard now is told later. */
  deliver: (notification: InboxNotification) => Promise<void>;
  /** Tells again what has waited for a while; returns how many. One process does at a time. */
  redeliver: () => Promise<number>;
}

const signalTimeoutMs = 5000;
/** Whoever received it has given up by then. */
const redeliverAfterMs = 6000;

/** See `NotificationRelay`. */
export function createNotificationRelay(deps: RelayDeps): NotificationRelay {
  function deliver(notification: InboxNotification): Promise<void> {
    const { jobId } = notification;
    const workflowId = workflowIdOf(jobId);
    return withCorrelation({ ...correlation(), jobId, workflowId }, () => tell(notification));
  }

  async function tell(notification: InboxNotification): Promise<void> {
    const { jobId, callIndex, operationId } = notification;
    const handle = deps.client.workflow.getHandle(workflowIdOf(jobId));
    try {
      await deps.client.withDeadline(Date.now() + signalTimeoutMs, () =>
        handle.signal(providerNotification, { callIndex, operationId }),
      );
      await deps.inbox.mark(notification, 'delivered');
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) {
        deps.logger.warn({ jobId, callIndex }, 'notification.late');
        await deps.inbox.mark(notification, 'late');
        // Nobody waits for this: the provider that notifies us must not, and a look missed here is made
        // by the follow-up.
        deps.outcomes.examine(jobId, 'notification').catch((failure: unknown) => {
          deps.logger.warn({ error: failure, jobId }, 'notification.late_not_examined');
        });
      } else deps.logger.warn({ error, jobId, callIndex }, 'notification.not_delivered');
    }
  }
  return {
    deliver,
    async redeliver() {
      const waiting = () => deps.inbox.waiting(redeliverAfterMs);
      if ((await waiting()).length === 0) return 0;
      // All processes at once would ask a server that has just come back for the same, and signal each job so often.
      const told = await deps.inbox.alone(async () => {
        const mine = await waiting();
        await Promise.all(mine.map(deliver));
        return mine.length;
      });
      return told ?? 0;
    },
  };
}
