/**
 * Updates of executions: rows that have a workflow, such as jobs and bulk jobs. Postgres notifies
 * every API process of each job whose credits are reserved, that is rejected, or that ends
 * (`ledger_write_jobs`), and of bulk jobs that end. A lost connection can drop notifications, so the
 * rows of awaited executions are also read once a second. The row is authoritative.
 */
import { z } from 'zod';
import { rejection } from '../domain/credits.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import { openListener } from '../platform/postgres-notifications.ts';

/** Schema of an event as Postgres sends it. `id` is the id of the execution. */
const executionEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.enum(['reserved', 'done']),
    id: z.string(),
    /** Undefined if no reader of all executions receives the event. */
    organizationId: z.string().optional(),
  }),
  z.object({ event: z.literal('rejected'), id: z.string(), rejection }),
]);
type ExecutionEvent = z.infer<typeof executionEvent>;

/** Subscription to the events of one execution. Events that arrive before `next` is called are queued. */
export interface Subscription {
  /** Waits up to `waitMs` milliseconds for the next event. Returns null if there is none. */
  next: (waitMs: number) => Promise<ExecutionEvent | null>;
  /** Ends the subscription, and a pending call of `next`. */
  end: () => void;
}

/** Creates the event topics, one per execution. A new subscription does not receive earlier events. */
function createTopics() {
  const topics = new Map<string, Set<{ queue: ExecutionEvent[]; wake: () => void }>>();

  return {
    subscribe(id: string): Subscription {
      const subscriber = { queue: [] as ExecutionEvent[], wake: () => {} };
      const topic = topics.get(id) ?? new Set();
      topics.set(id, topic.add(subscriber));
      return {
        async next(waitMs) {
          if (subscriber.queue.length === 0 && waitMs > 0) {
            const { promise, resolve } = Promise.withResolvers<void>();
            const timer = setTimeout(resolve, waitMs);
            subscriber.wake = resolve;
            await promise;
            clearTimeout(timer);
          }
          return subscriber.queue.shift() ?? null;
        },
        end() {
          subscriber.wake();
          topic.delete(subscriber);
          if (topic.size === 0 && topics.get(id) === topic) topics.delete(id);
        },
      };
    },
    publish(event: ExecutionEvent): void {
      for (const { queue, wake } of topics.get(event.id) ?? []) {
        queue.push(event);
        wake();
      }
    },
    wakeAll: (): void => topics.forEach((topic) => topic.forEach(({ wake }) => wake())),
    /** Returns the ids of the executions that have a subscription. */
    listIds: () => [...topics.keys()],
  };
}

/**
 * Execution whose credits were reserved or that has ended. `interrupted` means that some changes may
 * have been missed.
 */
export type Change = { organizationId: string; id: string } | 'interrupted';

/** Notifications of changed executions from Postgres. */
export type Updates = Awaited<ReturnType<typeof openUpdates>>;

interface UpdatesDeps {
  config: Pick<Config, 'DATABASE_URL' | 'DATABASE_LISTEN_URL'>;
  pool: DatabasePool;
  /** Kinds of executions. `ended` returns the ids of those of the given ones that have ended. */
  kinds: readonly { ended: (ids: readonly string[]) => Promise<readonly string[]> }[];
  logger: Logger;
}

/** Interval between reads of the rows of awaited executions, in milliseconds. */
const pollIntervalMs = 1000;

const pooledUrl =
  'DATABASE_URL: notifications of Postgres do not arrive over it, as behind a pooler in transaction' +
  ' mode (PgBouncer, Supavisor); set DATABASE_LISTEN_URL to the URL of the database without the pooler';
const foreignListenUrl =
  'DATABASE_LISTEN_URL: notifications that are sent over DATABASE_URL do not arrive over it; it must' +
  ' lead to the same database, without a pooler';

/**
 * Starts listening to the events. Returns functions to subscribe to one execution or to watch all
 * changes.
 * @throws Error of `openListener`
 */
export async function openUpdates(deps: UpdatesDeps) {
  const { config, pool, kinds, logger } = deps;
  const topics = createTopics();
  const watchers = new Set<(change: Change) => void>();
  const announce = (change: Change): void => {
    for (const watcher of watchers) watcher(change);
  };

  function receive(payload: string): void {
    const event = executionEvent.parse(JSON.parse(payload));
    topics.publish(event);
    if (event.event === 'rejected' || event.organizationId === undefined) return;
    announce({ id: event.id, organizationId: event.organizationId });
  }

  const interrupt = (): void => announce('interrupted');
  let isDraining = false;
  const url = config.DATABASE_LISTEN_URL ?? config.DATABASE_URL;
  const listener = await openListener({
    url,
    channel: 'studio_job',
    // The probes take the way of the events, which processes send over their pools.
    notify: (channel, payload) => pool.query(command`SELECT pg_notify(${channel}, ${payload})`),
    receive,
    onInterrupt: interrupt,
    silentMessage: config.DATABASE_LISTEN_URL ? foreignListenUrl : pooledUrl,
    logger,
  });
  const timer = setInterval(() => {
    const ids = topics.listIds();
    if (ids.length === 0) return;
    Promise.all(kinds.map((kind) => kind.ended(ids))).then(
      (ended) => ended.flat().forEach((id) => topics.publish({ id, event: 'done' })),
      (error: unknown) => logger.warn({ error }, 'job_listener.poll_failed'),
    );
  }, pollIntervalMs);
  return {
    subscribe: (id: string): Subscription => topics.subscribe(id),
    /** Calls `watcher` for every change from now on. */
    watch: (watcher: (change: Change) => void) => void watchers.add(watcher),
    /** Notifies all watchers that they may have missed changes. */
    interrupt,
    /**
     * Notifies all watchers that they may have missed changes, and makes every pending `next`
     * return, because the process is stopping.
     */
    drain(): void {
      isDraining = true;
      interrupt();
      topics.wakeAll();
    },
    /** Returns whether notifications arrive. */
    isListening: listener.isListening,
    /** True if the process is stopping. */
    get isDraining(): boolean {
      return isDraining;
    },
    async close(): Promise<void> {
      clearInterval(timer);
      await listener.close();
    },
  };
}

/** Kind of executions whose end requests can wait for. */
export interface AwaitedKind<Row> {
  /** Reads an execution; null if the organization has no such execution. */
  read: (organizationId: string, id: string) => Promise<Row | null>;
  isEnded: (row: Row) => boolean;
}

/** Execution to wait for. */
interface AwaitedExecution {
  organizationId: string;
  id: string;
  /**
   * Subscription that was opened before the execution started. If set, `awaitEnd` waits for the end
   * event before it reads the row; otherwise it reads the row immediately.
   */
  updates?: Subscription | null;
  /** Ends the wait early, because the caller has disconnected. */
  signal?: AbortSignal;
}

/** Creates the functions that wait for executions of a kind. */
export function createWaits<Row>(updates: Updates, kind: AwaitedKind<Row>) {
  return {
    /**
     * Waits until the execution ends, for at most `waitMs` milliseconds. Returns earlier if the
     * process is stopping or the signal aborts. Returns the row, or null if there is none.
     */
    async awaitEnd(execution: AwaitedExecution, waitMs: number): Promise<Row | null> {
      const { organizationId, id, signal } = execution;
      const subscription = execution.updates ?? updates.subscribe(id);
      const end = (): void => subscription.end();
      signal?.addEventListener('abort', end);
      try {
        const deadlineAtMs = performance.now() + waitMs;
        if (execution.updates) await awaitEndEvent(subscription, waitMs);
        for (;;) {
          const row = await kind.read(organizationId, id);
          const remainingMs = deadlineAtMs - performance.now();
          if (row === null || kind.isEnded(row) || remainingMs <= 0) return row;
          if (updates.isDraining || signal?.aborted) return row;
          await awaitEndEvent(subscription, remainingMs);
        }
      } finally {
        signal?.removeEventListener('abort', end);
        end();
      }
    },

    /** Returns whether the process is stopping. Requests must not wait in a stopping process. */
    isDraining: () => updates.isDraining,
  };
}

/** Waits up to `waitMs` milliseconds for the event that the execution has ended. */
async function awaitEndEvent(updates: Subscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let remainingMs = waitMs; remainingMs > 0; remainingMs = deadlineAtMs - performance.now()) {
    const event = await updates.next(remainingMs);
    if (event === null || event.event === 'done') return;
  }
}

export type Waits<Row> = ReturnType<typeof createWaits<Row>>;
