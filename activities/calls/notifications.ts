/**
 * Notifications of providers: the address that they are told (design §3.5), the inbox of verified ones, and the
 * way to the workflow. A notification is kept before the workflow is told, and told until it has heard.
 */
import { createHmac } from 'node:crypto';
import { AsyncLocalStorage } from 'node:async_hooks';
import { sql } from 'slonik';
import { z } from 'zod';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { isSecret } from '../../platform/secret-comparison.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { providerNotification, workflowIdOf } from '../../jobs/contract.ts';
import { correlation, withCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';

/** Whom a notification is for. */
interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/** `publicBaseUrl`: where the provider reaches this API. */
export function createNotificationUrls(options: { publicBaseUrl: string; secret: string }) {
  const macOf = (address: NotificationAddress): string =>
    createHmac('sha256', options.secret)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    urlFor: (address: NotificationAddress): string =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${macOf(address)}`,
    /** Whether we made this address. */
    holds: (address: NotificationAddress, mac: string): boolean => isSecret(mac, macOf(address)),
  };
}
/** See `createNotificationUrls`. */
export type NotificationUrls = ReturnType<typeof createNotificationUrls>;

const deliveriesRow = z.object({ deliveries: z.number() });
const lockRow = z.object({ taken: z.boolean() });
const none = z.object({});

/** A verified notification. */
const inboxNotification = z.object({
  provider: z.string(),
  jobId: z.string(),
  callIndex: z.number(),
  operationId: z.string(),
});
/** See `inboxNotification`. */
type InboxNotification = z.infer<typeof inboxNotification>;

/** A notification as it lies in the inbox; times are Unix ms. */
const keptNotification = inboxNotification.extend({
  /** `received`: no workflow has heard of it yet; `late`: its workflow had ended. */
  state: z.enum(['received', 'delivered', 'late']),
  /** How often the provider sent it. */
  deliveries: z.number(),
  receivedAtMs: z.number(),
});
/** See `keptNotification`. */
type KeptNotification = z.infer<typeof keptNotification>;

const columns = sql.fragment`provider, job_id AS "jobId", call_index AS "callIndex",
  operation_id AS "operationId", state, deliveries, received_at AS "receivedAtMs"`;

/** The inbox. */
export function createInbox(pool: DatabasePool) {
  return {
    /** Keeps it; false when the provider has sent it before. */
    async keep(notification: InboxNotification): Promise<boolean> {
      const { provider, jobId, callIndex, operationId } = notification;
      const deliveries = await pool.oneFirst(sql.type(deliveriesRow)`
        INSERT INTO notification AS n (provider, job_id, call_index, operation_id, state)
          VALUES (${provider}, ${jobId}, ${callIndex}, ${operationId}, 'received')
        ON CONFLICT (job_id, call_index, operation_id) DO UPDATE SET deliveries = n.deliveries + 1
        RETURNING deliveries`);
      return deliveries === 1;
    },
    /** The workflow has it, or is gone. */
    async mark(notification: InboxNotification, state: 'delivered' | 'late'): Promise<void> {
      await pool.query(sql.type(none)`UPDATE notification SET state = ${state}
        WHERE job_id = ${notification.jobId} AND call_index = ${notification.callIndex}
          AND operation_id = ${notification.operationId}`);
    },
    /** All of a job, oldest first. */
    ofJob: (jobId: string): Promise<readonly KeptNotification[]> =>
      pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE job_id = ${jobId} ORDER BY received_at`),
    /** The newest in this state, or in any. */
    list: (page: {
      state: string | undefined;
      limit: number;
    }): Promise<readonly KeptNotification[]> => {
      const of = page.state ?? null;
      return pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE ${of}::text IS NULL OR state = ${of}::text
        ORDER BY received_at DESC LIMIT ${page.limit}`);
    },
    /** Those that wait for longer than this. */
    waiting: (olderThanMs: number): Promise<readonly InboxNotification[]> =>
      pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE state = 'received'
          AND received_at < clock_timestamp() - ${olderThanMs} * interval '1 millisecond'
        ORDER BY received_at LIMIT 100`),
    /** Runs it unless another process does at this moment; then null. */
    alone<Answer>(run: () => Promise<Answer>): Promise<Answer | null> {
      // Only the lock is the transaction's: what runs under it has connections of its own.
      const outside = AsyncLocalStorage.bind(run);
      return pool.transaction(async (connection) => {
        const isAlone = await connection.oneFirst(sql.type(lockRow)`
          SELECT pg_try_advisory_xact_lock(hashtext('tell_notifications')) AS taken`);
        return isAlone ? outside() : null;
      });
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
/** Whoever received it has given up by then. */
const redeliverAfterMs = 6000;

/** Passes notifications on. */
export function createNotificationRelay(deps: RelayDeps) {
  const { notifications, notificationSeconds } = deps.metrics;

  function deliver(notification: InboxNotification): Promise<boolean> {
    const { jobId } = notification;
    const workflowId = workflowIdOf(jobId);
    return withCorrelation({ ...correlation(), jobId, workflowId }, () => tell(notification));
  }

  async function tell(notification: InboxNotification): Promise<boolean> {
    const { provider, jobId, callIndex, operationId } = notification;
    const handle = deps.client.workflow.getHandle(workflowIdOf(jobId));
    try {
      await deps.client.withDeadline(Date.now() + signalTimeoutMs, () =>
        handle.signal(providerNotification, { callIndex, operationId }),
      );
      await deps.inbox.mark(notification, 'delivered');
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) {
        deps.logger.warn({ jobId, callIndex }, 'notification.late');
        await deps.inbox.mark(notification, 'late');
        notifications.inc({ provider, outcome: 'late' });
      } else deps.logger.warn({ error, jobId, callIndex }, 'notification.not_delivered');
      return false;
    }
  }
  return {
    /** Keeps a verified notification, and passes it on unless it came before. */
    async receive(notification: InboxNotification): Promise<void> {
      const { provider } = notification;
      const startedAtMs = performance.now();
      const isNew = await deps.inbox.keep(notification);
      notifications.inc({ provider, outcome: isNew ? 'new' : 'repeated' });
      // Of one that is told again later, the age is a gauge of the worker.
      if (isNew && (await deliver(notification))) {
        notificationSeconds.observe({ provider }, (performance.now() - startedAtMs) / 1000);
      }
    },
    /** Whether the workflow has it now. Never throws: what was not heard now is told later. */
    deliver,
    /** Tells again what has waited for a while; returns how many. One process does at a time. */
    async redeliver(): Promise<number> {
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
/** See `createNotificationRelay`. */
export type NotificationRelay = ReturnType<typeof createNotificationRelay>;
