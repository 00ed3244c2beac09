/**
 * Events of jobs: Postgres notifies every API process when a job is reserved, refused or settled
 * (`ledger_write_jobs`). Events are hints; the job's row is the truth. Events that are lost with a
 * connection are replaced by a slow poll of the rows that a request waits for.
 */
import { Client } from 'pg';
import { z } from 'zod';
import type { JobReads } from '../../jobs/records/job-reads.ts';
import { refusal } from '../../jobs/ledger-verdicts.ts';
import type { Logger } from '../../platform/logger.ts';

/** Event of the job `id`, as `ledger_write_jobs` sends it. */
const jobEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.enum(['reserved', 'done']),
    id: z.string(),
    /** Absent if the event comes from a poll of the rows instead of a notification. */
    organizationId: z.string().optional(),
  }),
  z.object({ event: z.literal('refused'), id: z.string(), refusal }),
]);
type JobEvent = z.infer<typeof jobEvent>;

/** Subscription to the events of one job. Events that arrive before a wait are kept. */
export interface JobSubscription {
  /** Returns the next event; null if none arrives in time. */
  next: (waitMs: number) => Promise<JobEvent | null>;
  end: () => void;
}

/** Change of a job: it was reserved or has ended; `missed`: changes may have been lost. */
export type JobChange = { organizationId: string; jobId: string } | 'interrupted';

/** Notifications of changed jobs from Postgres. */
export type JobNews = Awaited<ReturnType<typeof openJobNews>>;

interface NewsDeps {
  databaseUrl: string;
  reads: Pick<JobReads, 'ended'>;
  logger: Logger;
}

const lookIntervalMs = 1000;
const reconnectMs = 1000;
const connectTimeoutMs = 5000;

/**
 * Opens the notifications: a topic for each job, and one for all changes. The connection is open
 * when this returns, or is being retried.
 */
export async function openJobNews(deps: NewsDeps) {
  const { reads, logger } = deps;
  const topics = createTopics();
  const watchers = new Set<(change: JobChange) => void>();
  const announce = (change: JobChange): void => {
    for (const watcher of watchers) watcher(change);
  };

  function hear(payload: string): void {
    const told = jobEvent.parse(JSON.parse(payload));
    topics.publish(told);
    if (told.event === 'refused' || told.organizationId === undefined) return;
    announce({ jobId: told.id, organizationId: told.organizationId });
  }

  const interrupt = (): void => announce('interrupted');
  const stopListening = await listen(deps, hear, interrupt);
  const timer = setInterval(() => {
    const ids = topics.awaited();
    if (ids.length === 0) return;
    reads.ended(ids).then(
      (ended) => ended.forEach((id) => topics.publish({ id, event: 'done' })),
      (error: unknown) => logger.warn({ error }, 'job_listener.look_failed'),
    );
  }, lookIntervalMs);
  return {
    subscribe: topics.subscribe,
    /** Subscribes to all changes from now on. */
    watch: (watcher: (change: JobChange) => void) => void watchers.add(watcher),
    /** Reports to all subscribers that changes may be lost from now on. */
    interrupt,
    async close(): Promise<void> {
      clearInterval(timer);
      await stopListening();
    },
  };
}

/**
 * Listens on one connection after the other; returns the function that stops. `onEnd` is called
 * when a connection has ended.
 */
async function listen(
  { databaseUrl, logger }: NewsDeps,
  hear: (payload: string) => void,
  onEnd: () => void,
): Promise<() => Promise<void>> {
  let stopped = false;
  let client: Client | undefined;
  let reconnect: NodeJS.Timeout | undefined;

  function connectAgain(): void {
    if (!stopped) reconnect = setTimeout(() => void connect(), reconnectMs);
  }

  async function connect(): Promise<void> {
    const next = new Client({
      connectionString: databaseUrl,
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
    });
    client = next;
    next.on('error', (error) => logger.warn({ error }, 'job_listener.connection_lost'));
    next.on('end', () => {
      onEnd();
      connectAgain();
    });
    next.on('notification', ({ payload }) => hear(payload ?? ''));
    try {
      await next.connect();
      await next.query('LISTEN studio_job');
    } catch (error) {
      logger.warn({ error }, 'job_listener.not_connected');
      // A client that never connected does not always end by itself.
      next.removeAllListeners('end');
      await next.end().catch(() => {});
      connectAgain();
    }
  }

  await connect();
  return async () => {
    stopped = true;
    clearTimeout(reconnect);
    await client?.end().catch(() => {});
  };
}

/** Topics by job; events without a subscriber are dropped. */
function createTopics() {
  const topics = new Map<string, Set<(event: JobEvent) => void>>();

  function subscribe(jobId: string): JobSubscription {
    const topic = topics.get(jobId) ?? new Set();
    topics.set(jobId, topic);
    const kept: JobEvent[] = [];
    let wake: (() => void) | undefined;
    const hear = (event: JobEvent): void => {
      kept.push(event);
      wake?.();
    };
    topic.add(hear);
    return {
      async next(waitMs) {
        if (kept.length === 0 && waitMs > 0) {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, waitMs);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
          });
        }
        return kept.shift() ?? null;
      },
      end() {
        topic.delete(hear);
        if (topic.size === 0 && topics.get(jobId) === topic) topics.delete(jobId);
      },
    };
  }

  return {
    subscribe,
    publish: (event: JobEvent): void => {
      for (const hear of topics.get(event.id) ?? []) hear(event);
    },
    /** Jobs that requests wait for. */
    awaited: () => [...topics.keys()],
  };
}
