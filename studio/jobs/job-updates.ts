/**
 * Job updates: Postgres notifies every API process of each job whose credits are reserved, that is
 * rejected, or that ends (`ledger_write_jobs`). A lost connection can drop notifications, so the
 * rows of awaited jobs are also read once a second. The row of a job is authoritative.
 */
import type { JobReads } from './job-reads.ts';
import type { Config } from '../../platform/config.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { openListener } from '../../platform/notifications.ts';
import { createTopics, jobEvent } from './job-topics.ts';

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
