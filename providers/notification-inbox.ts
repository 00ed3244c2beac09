/** Stores verified provider notifications in a database table. */
import { sql } from 'slonik';
import { z } from 'zod';
import { command, type DatabasePool } from '../platform/database.ts';

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
