/**
 * Job updates: Postgres notifies every API process of each job whose credits are reserved, that is
 * rejected, or that ends (`ledger_write_jobs`). A lost connection can drop notifications, so the
 * rows of awaited jobs are also read once a second. The row of a job is authoritative.
 */
import { z } from 'zod';
import { rejection } from '../../domain/credits.ts';
import type { JobReads, JobRecord } from './job-reads.ts';
import type { Config } from '../../platform/config.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { openListener } from '../../platform/postgres-notifications.ts';

/** Schema of a job event as `ledger_write_jobs` sends it. `id` is the job's id. */
const jobEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.enum(['reserved', 'done']),
    id: z.string(),
    /** Organization of the job. Undefined if the event was derived from the job's row. */
    organizationId: z.string().optional(),
  }),
  z.object({ event: z.literal('rejected'), id: z.string(), rejection }),
]);
type JobEvent = z.infer<typeof jobEvent>;

/** Subscription to the events of one job. Events that arrive before `next` is called are queued. */
export interface JobSubscription {
  /** Waits up to `waitMs` milliseconds for the next event. Returns null if there is none. */
  next: (waitMs: number) => Promise<JobEvent | null>;
  /** Ends the subscription, and a pending call of `next`. */
  end: () => void;
}

/** Creates the event topics, one per job. A new subscription does not receive earlier events. */
function createTopics() {
  const topics = new Map<string, Set<(event: JobEvent) => void>>();
  /** Functions that end the pending calls of `next`, one function for each call. */
  const wakeFunctions = new Set<() => void>();

  function subscribe(jobId: string): JobSubscription {
    const topic = topics.get(jobId) ?? new Set();
    topics.set(jobId, topic);
    const queue: JobEvent[] = [];
    let wake: (() => void) | undefined;
    const receive = (event: JobEvent): void => {
      queue.push(event);
      wake?.();
    };
    topic.add(receive);
    return {
      async next(waitMs) {
        if (queue.length === 0 && waitMs > 0) {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, waitMs);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
            wakeFunctions.add(wake);
          });
          if (wake) wakeFunctions.delete(wake);
        }
        return queue.shift() ?? null;
      },
      end() {
        wake?.();
        topic.delete(receive);
        if (topic.size === 0 && topics.get(jobId) === topic) topics.delete(jobId);
      },
    };
  }

  return {
    subscribe,
    publish: (event: JobEvent): void => {
      for (const receive of topics.get(event.id) ?? []) receive(event);
    },
    wakeAll: (): void => wakeFunctions.forEach((wake) => wake()),
    /** Returns the ids of the jobs that have a subscription. */
    listJobIds: () => [...topics.keys()],
  };
}

/**
 * Job whose credits were reserved or that has ended. `interrupted` means that some changes may have
 * been missed.
 */
export type JobChange = { organizationId: string; jobId: string } | 'interrupted';

/** Notifications of changed jobs from Postgres. */
export type JobUpdates = Awaited<ReturnType<typeof openJobUpdates>>;

interface UpdatesDeps {
  config: Pick<Config, 'DATABASE_URL' | 'DATABASE_LISTEN_URL'>;
  pool: DatabasePool;
  reads: Pick<JobReads, 'ended'>;
  logger: Logger;
}

/** Interval between reads of the rows of awaited jobs, in milliseconds. */
const pollIntervalMs = 1000;

const pooledUrl =
  'DATABASE_URL: notifications of Postgres do not arrive over it, as behind a pooler in transaction' +
  ' mode (PgBouncer, Supavisor); set DATABASE_LISTEN_URL to the URL of the database without the pooler';
const foreignListenUrl =
  'DATABASE_LISTEN_URL: notifications that are sent over DATABASE_URL do not arrive over it; it must' +
  ' lead to the same database, without a pooler';

/**
 * Starts listening to job events. Returns functions to subscribe to one job or to watch all
 * changes.
 * @throws Error of `openListener`
 */
export async function openJobUpdates(deps: UpdatesDeps) {
  const { config, pool, reads, logger } = deps;
  const topics = createTopics();
  const watchers = new Set<(change: JobChange) => void>();
  const announce = (change: JobChange): void => {
    for (const watcher of watchers) watcher(change);
  };

  function receive(payload: string): void {
    const event = jobEvent.parse(JSON.parse(payload));
    topics.publish(event);
    if (event.event === 'rejected' || event.organizationId === undefined) return;
    announce({ jobId: event.id, organizationId: event.organizationId });
  }

  const interrupt = (): void => announce('interrupted');
  let isDraining = false;
  const url = config.DATABASE_LISTEN_URL ?? config.DATABASE_URL;
  const listener = await openListener({
    url,
    channel: 'studio_job',
    // The probes take the way of the job events, which processes send over their pools.
    notify: (channel, payload) => pool.query(command`SELECT pg_notify(${channel}, ${payload})`),
    receive,
    onInterrupt: interrupt,
    silentMessage: config.DATABASE_LISTEN_URL ? foreignListenUrl : pooledUrl,
    logger,
  });
  const timer = setInterval(() => {
    const ids = topics.listJobIds();
    if (ids.length === 0) return;
    reads.ended(ids).then(
      (ended) => ended.forEach((id) => topics.publish({ id, event: 'done' })),
      (error: unknown) => logger.warn({ error }, 'job_listener.poll_failed'),
    );
  }, pollIntervalMs);
  return {
    subscribe: topics.subscribe,
    /** Calls `watcher` for every change from now on. */
    watch: (watcher: (change: JobChange) => void) => void watchers.add(watcher),
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

interface WaitDeps {
  updates: JobUpdates;
  reads: JobReads;
}

/** Job to wait for. */
interface AwaitedJob {
  organizationId: string;
  jobId: string;
  /**
   * Subscription that was opened before the job started. If set, `awaitEnd` waits for the end event
   * before it reads the row; otherwise it reads the row immediately.
   */
  updates?: JobSubscription | null;
  /** Ends the wait early, because the caller has disconnected. */
  signal?: AbortSignal;
}

/** Creates the functions that wait for jobs. */
export function createJobWaits(deps: WaitDeps) {
  return {
    /**
     * Waits until the job ends, for at most `waitMs` milliseconds. Returns earlier if the process
     * is stopping or the signal aborts. Returns the job's row, or null if the job has none.
     */
    awaitEnd: (job: AwaitedJob, waitMs: number) => awaitEnd(deps, job, waitMs),

    /** Returns whether the process is stopping. Requests must not wait in a stopping process. */
    isDraining: () => deps.updates.isDraining,
  };
}

async function awaitEnd(
  deps: Pick<WaitDeps, 'updates' | 'reads'>,
  { organizationId, jobId, updates: subscription, signal }: AwaitedJob,
  waitMs: number,
): Promise<JobRecord | null> {
  const updates = subscription ?? deps.updates.subscribe(jobId);
  const end = (): void => updates.end();
  signal?.addEventListener('abort', end);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    if (subscription) await awaitEndEvent(subscription, waitMs);
    for (;;) {
      const job = await deps.reads.read(organizationId, jobId);
      const remainingMs = deadlineAtMs - performance.now();
      if (!job || job.status !== 'open' || remainingMs <= 0) return job;
      if (deps.updates.isDraining || signal?.aborted) return job;
      await awaitEndEvent(updates, remainingMs);
    }
  } finally {
    signal?.removeEventListener('abort', end);
    end();
  }
}

/** Waits up to `waitMs` milliseconds for the event that the job has ended. */
async function awaitEndEvent(updates: JobSubscription, waitMs: number): Promise<void> {
  const deadlineAtMs = performance.now() + waitMs;
  for (let remainingMs = waitMs; remainingMs > 0; remainingMs = deadlineAtMs - performance.now()) {
    const event = await updates.next(remainingMs);
    if (event === null || event.event === 'done') return;
  }
}

export type JobWaits = ReturnType<typeof createJobWaits>;
