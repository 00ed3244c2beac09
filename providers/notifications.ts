/**
 * Notifications of providers: the URL that is sent to a provider (design §3.5), the table of
 * verified notifications, and the signal to the workflow. If the workflow cannot be signaled now,
 * the response is 5xx, so that the provider repeats the notification. The workflow's own timer
 * checks the call in any case.
 */
import { createHmac } from 'node:crypto';
import { sql } from 'slonik';
import { z } from 'zod';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { isSecret } from '../platform/secret-comparison.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import { providerNotification, workflowIdOf } from '../jobs/contract.ts';
import type { Logger } from '../platform/logger.ts';

/** Call to which a notification belongs. */
interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/**
 * Makes and checks the URLs of notifications; `publicBaseUrl` is the URL at which providers reach
 * this API.
 */
export function createNotificationUrls(options: {
  publicBaseUrl: string;
  secret: string;
  /** Former secret, whose URLs are accepted too while the calls that have them run. */
  previousSecret?: string | undefined;
}) {
  const { secret, previousSecret } = options;
  const macOf = (address: NotificationAddress, key = secret): string =>
    createHmac('sha256', key)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    /** Returns the URL to which the provider sends the notification of a call. */
    urlFor: (address: NotificationAddress): string =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${macOf(address)}`,
    /** Returns whether the MAC in a received URL is valid. */
    holds: (address: NotificationAddress, mac: string): boolean =>
      isSecret(mac, macOf(address)) ||
      (previousSecret !== undefined && isSecret(mac, macOf(address, previousSecret))),
  };
}
/** URLs to which providers send notifications. */
export type NotificationUrls = ReturnType<typeof createNotificationUrls>;

const storedRow = z.object({ deliveries: z.number(), state: z.string() });

/** Schema of a verified notification. */
const inboxNotification = z.object({
  provider: z.string(),
  jobId: z.string(),
  callIndex: z.int(),
  operationId: z.string(),
});
/** Verified notification. */
type InboxNotification = z.infer<typeof inboxNotification>;

/** Schema of a stored notification; times are Unix ms. */
export const keptNotification = inboxNotification.extend({
  /** `received`: not signaled yet; `delivered`: signaled; `late`: its workflow had ended. */
  state: z.enum(['received', 'delivered', 'late']),
  /** Number of times that the provider has sent the notification. */
  deliveries: z.int(),
  receivedAtMs: z.number(),
});
/** Stored notification. */
type KeptNotification = z.infer<typeof keptNotification>;

const columns = sql.fragment`provider, job_id AS "jobId", call_index AS "callIndex",
  operation_id AS "operationId", state, deliveries, received_at AS "receivedAtMs"`;

/** Makes the inbox: the table of verified notifications. */
export function createInbox(pool: DatabasePool) {
  return {
    /** Stores a notification; returns how often the provider has sent it, and its state. */
    async keep(notification: InboxNotification): Promise<{ deliveries: number; state: string }> {
      const { provider, jobId, callIndex, operationId } = notification;
      return pool.one(sql.type(storedRow)`
        INSERT INTO provider_notification AS n (provider, job_id, call_index, operation_id, state)
          VALUES (${provider}, ${jobId}, ${callIndex}, ${operationId}, 'received')
        ON CONFLICT (job_id, call_index, operation_id) DO UPDATE SET deliveries = n.deliveries + 1
        RETURNING deliveries, state`);
    },
    /** Records that the workflow has received the notification, or had already ended. */
    async mark(notification: InboxNotification, state: 'delivered' | 'late'): Promise<void> {
      await pool.query(command`UPDATE provider_notification SET state = ${state}
        WHERE job_id = ${notification.jobId} AND call_index = ${notification.callIndex}
          AND operation_id = ${notification.operationId}`);
    },
    /** Returns all notifications of a job, oldest first. */
    ofJob: (jobId: string): Promise<readonly KeptNotification[]> =>
      pool.any(sql.type(keptNotification)`SELECT ${columns} FROM provider_notification
        WHERE job_id = ${jobId} ORDER BY received_at`),
    /** Returns the newest notifications in a state; in any state if undefined. */
    list: (page: {
      state: string | undefined;
      limit: number;
    }): Promise<readonly KeptNotification[]> => {
      const state = page.state ?? null;
      return pool.any(sql.type(keptNotification)`SELECT ${columns} FROM provider_notification
        WHERE ${state}::text IS NULL OR state = ${state}::text
        ORDER BY received_at DESC LIMIT ${page.limit}`);
    },
  };
}

interface RelayDeps {
  client: Client;
  inbox: ReturnType<typeof createInbox>;
  metrics: Metrics;
  logger: Logger;
}

const signalTimeoutMs = 5000;

/** Makes the relay that stores notifications and signals them to workflows. */
export function createNotificationRelay(deps: RelayDeps) {
  const { client, inbox, logger } = deps;
  const { notifications, notificationSeconds } = deps.metrics;

  /** Signals the workflow; returns false if the workflow has ended. */
  async function signal({ jobId, callIndex, operationId }: InboxNotification): Promise<boolean> {
    const handle = client.workflow.getHandle(workflowIdOf(jobId));
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
     * Stores a verified notification and signals it to its workflow once.
     * @throws Error if it cannot be stored or signaled now; the provider then sends it again
     */
    async receive(notification: InboxNotification): Promise<void> {
      const { provider, jobId, callIndex } = notification;
      const startedAtMs = performance.now();
      const { deliveries, state } = await inbox.keep(notification);
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
