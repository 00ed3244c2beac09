/** The inbox of verified webhooks: kept before the workflow is told, told until it has heard. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import type { Metrics } from '../../platform/metrics.ts';

const deliveriesRow = z.object({ deliveries: z.number(), state: z.string() });
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
export type InboxNotification = z.infer<typeof inboxNotification>;

/** A notification as it lies in the inbox; times are Unix ms. */
const keptNotification = inboxNotification.extend({
  /** `received`: no workflow has heard of it yet; `late`: its workflow had ended. */
  state: z.enum(['received', 'delivered', 'late']),
  /** How often the provider sent it. */
  deliveries: z.number(),
  receivedAtMs: z.number(),
});
/** See `keptNotification`. */
export type KeptNotification = z.infer<typeof keptNotification>;

const columns = sql.fragment`provider, job_id AS "jobId", call_index AS "callIndex",
  operation_id AS "operationId", state, deliveries, received_at AS "receivedAtMs"`;

/** The inbox. */
export interface Inbox {
  /** Keeps it; tells whether its workflow has already been told of the same. */
  keep: (notification: InboxNotification) => Promise<'new' | 'waiting' | 'told'>;
  /** The workflow has it, or is gone. */
  mark: (notification: InboxNotification, state: 'delivered' | 'late') => Promise<void>;
  /** All of a job, oldest first. */
  ofJob: (jobId: string) => Promise<readonly KeptNotification[]>;
  /** The newest in this state, or in any. */
  list: (page: {
    state: string | undefined;
    limit: number;
  }) => Promise<readonly KeptNotification[]>;
  /** Those that wait for longer than this. */
  waiting: (olderThanMs: number) => Promise<readonly InboxNotification[]>;
  /** Runs it unless another process does at this moment; then null. */
  alone: <Answer>(run: () => Promise<Answer>) => Promise<Answer | null>;
}

/** See `Inbox`. */
export function createInbox(pool: DatabasePool): Inbox {
  return {
    async keep(notification) {
      const { provider, jobId, callIndex, operationId } = notification;
      const row = await pool.one(sql.type(deliveriesRow)`
        INSERT INTO notification AS n (provider, job_id, call_index, operation_id, state)
          VALUES (${provider}, ${jobId}, ${callIndex}, ${operationId}, 'received')
        ON CONFLICT (job_id, call_index, operation_id) DO UPDATE SET deliveries = n.deliveries + 1
        RETURNING deliveries, state`);
      if (row.state !== 'received') return 'told';
      return row.deliveries === 1 ? 'new' : 'waiting';
    },
    async mark(notification, state) {
      await pool.query(sql.type(none)`UPDATE notification SET state = ${state}
        WHERE job_id = ${notification.jobId} AND call_index = ${notification.callIndex}
          AND operation_id = ${notification.operationId}`);
    },
    ofJob: (jobId) =>
      pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE job_id = ${jobId} ORDER BY received_at`),
    list({ state, limit }) {
      const of = state ?? null;
      return pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE ${of}::text IS NULL OR state = ${of}::text ORDER BY received_at DESC LIMIT ${limit}`);
    },
    waiting: (olderThanMs) =>
      pool.any(sql.type(keptNotification)`SELECT ${columns} FROM notification
        WHERE state = 'received'
          AND received_at < clock_timestamp() - ${olderThanMs} * interval '1 millisecond'
        ORDER BY received_at LIMIT 100`),
    alone(run) {
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

/** Counts what comes in, and times the way to the workflow. */
export function observeInbox(inbox: Inbox, metrics: Metrics): Inbox {
  const { notifications, notificationSeconds } = metrics;
  // One that is told again later is another object: its age is a gauge of the worker.
  const keptAtMs = new WeakMap<InboxNotification, number>();
  return {
    ...inbox,
    async keep(notification) {
      const startedAtMs = performance.now();
      const known = await inbox.keep(notification);
      const { provider } = notification;
      notifications.inc({ provider, outcome: known === 'new' ? 'new' : 'repeated' });
      if (known === 'new') keptAtMs.set(notification, startedAtMs);
      return known;
    },
    async mark(notification, state) {
      await inbox.mark(notification, state);
      const { provider } = notification;
      const startedAtMs = keptAtMs.get(notification);
      if (state === 'late') notifications.inc({ provider, outcome: 'late' });
      else if (startedAtMs !== undefined) {
        notificationSeconds.observe({ provider }, (performance.now() - startedAtMs) / 1000);
      }
    },
  };
}
