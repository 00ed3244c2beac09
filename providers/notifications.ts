/**
 * Provider notifications: their URLs, the inbox that stores them, and the relay that signals them to
 * workflows.
 */
import { createHmac } from 'node:crypto';
import { isSecret } from '../domain/ids.ts';
import { sql } from 'slonik';
import { z } from 'zod';
import { command, type DatabasePool } from '../platform/database.ts';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { providerNotification, jobWorkflowId } from '../domain/job-contract.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';

/** Identification of a call in a notification URL. */
interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/**
 * Creates the functions that build and check notification URLs. `publicBaseUrl` is the URL at which
 * providers reach the API.
 */
export function createNotificationUrls(options: {
  publicBaseUrl: string;
  secret: string;
  /**
   * Previous secret. URLs that were created with it remain valid, for calls that were sent before
   * the secret was changed.
   */
  previousSecret?: string | undefined;
}) {
  const { secret, previousSecret } = options;
  const computeMac = (address: NotificationAddress, key = secret): string =>
    createHmac('sha256', key)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    /** Returns the URL to which the provider sends the notification of a call. */
    urlFor: (address: NotificationAddress): string =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${computeMac(address)}`,
    /** Returns whether the MAC in a received URL is valid. */
    isValid: (address: NotificationAddress, mac: string): boolean =>
      isSecret(mac, computeMac(address)) ||
      (previousSecret !== undefined && isSecret(mac, computeMac(address, previousSecret))),
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
export type InboxNotification = z.infer<typeof inboxNotification>;

/** Schema of a stored notification. Times are Unix milliseconds. */
export const storedNotification = inboxNotification.extend({
  /**
   * `received`: not yet signaled to the workflow. `delivered`: signaled to the workflow. `late`:
   * received after the workflow had ended.
   */
  state: z.enum(['received', 'delivered', 'late']),
  /** Number of times that the provider has sent the notification. */
  deliveries: z.int(),
  receivedAtMs: z.number(),
});
type StoredNotification = z.infer<typeof storedNotification>;

const columns = sql.fragment`provider, job_id AS "jobId", call_index AS "callIndex",
  operation_id AS "operationId", state, deliveries, received_at AS "receivedAtMs"`;

/** Creates the functions that read and write the table of notifications. */
export function createInbox(pool: DatabasePool) {
  return {
    /** Stores a notification. Returns its state and how often the provider has sent it. */
    async add(notification: InboxNotification): Promise<{ deliveries: number; state: string }> {
      const { provider, jobId, callIndex, operationId } = notification;
      return pool.one(sql.type(storedRow)`
        INSERT INTO provider_notification AS n (provider, job_id, call_index, operation_id, state)
          VALUES (${provider}, ${jobId}, ${callIndex}, ${operationId}, 'received')
        ON CONFLICT (job_id, call_index, operation_id) DO UPDATE SET deliveries = n.deliveries + 1
        RETURNING deliveries, state`);
    },
    /** Records that a notification was signaled (`delivered`) or came too late (`late`). */
    async mark(notification: InboxNotification, state: 'delivered' | 'late'): Promise<void> {
      await pool.query(command`UPDATE provider_notification SET state = ${state}
        WHERE job_id = ${notification.jobId} AND call_index = ${notification.callIndex}
          AND operation_id = ${notification.operationId}`);
    },
    /** Returns all notifications of a job, oldest first. */
    listByJob: (jobId: string): Promise<readonly StoredNotification[]> =>
      pool.any(sql.type(storedNotification)`SELECT ${columns} FROM provider_notification
        WHERE job_id = ${jobId} ORDER BY received_at`),
    /** Returns the newest notifications in a state; undefined stands for all states. */
    list: (page: {
      state: string | undefined;
      limit: number;
    }): Promise<readonly StoredNotification[]> => {
      const state = page.state ?? null;
      return pool.any(sql.type(storedNotification)`SELECT ${columns} FROM provider_notification
        WHERE ${state}::text IS NULL OR state = ${state}::text
        ORDER BY received_at DESC LIMIT ${page.limit}`);
    },
  };
}
/** Functions that read and write the table of notifications. */
export type NotificationInbox = ReturnType<typeof createInbox>;

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
