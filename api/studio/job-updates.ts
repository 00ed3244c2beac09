/**
 * Job updates: Postgres notifies every API process of jobs that were reserved, rejected or settled,
 * by any process (`ledger_write_jobs`). Notifications can be lost with a connection, so the rows of
 * awaited jobs are also read once a second: the row of a job is authoritative.
 */
import { Client } from 'pg';
import type { JobReads } from '../../jobs/records/job-reads.ts';
import type { Logger } from '../../platform/logger.ts';
import { createTopics, jobEvent } from './job-topics.ts';

/** Job that was reserved or has ended; `interrupted`: changes may have been missed. */
export type JobChange = { organizationId: string; jobId: string } | 'interrupted';

/** Notifications of changed jobs from Postgres. */
export type JobUpdates = Awaited<ReturnType<typeof openJobUpdates>>;

interface UpdatesDeps {
  databaseUrl: string;
  reads: Pick<JobReads, 'ended'>;
  logger: Logger;
}

/** Time between two reads of the rows of awaited jobs, in milliseconds. */
const pollIntervalMs = 1000;
const reconnectMs = 1000;
const connectTimeoutMs = 5000;

/**
 * Starts to listen to job events, and returns the functions to subscribe to one job or to watch all
 * changes. If the first connection fails, it is retried in the background.
 */
export async function openJobUpdates(deps: UpdatesDeps) {
  const { reads, logger } = deps;
  const topics = createTopics();
  const watchers = new Set<(change: JobChange) => void>();
  const announce = (change: JobChange): void => {
    for (const watcher of watchers) watcher(change);
  };

  function receive(payload: string): void {
    const event = jobEvent.parse(JSON.parse(payload));
    topics.publish(event);
    if (event.event === 'refused' || event.organizationId === undefined) return;
    announce({ jobId: event.id, organizationId: event.organizationId });
  }

  const interrupt = (): void => announce('interrupted');
  let isDraining = false;
  const stopListening = await listen(deps, receive, interrupt);
  const timer = setInterval(() => {
    const ids = topics.awaited();
    if (ids.length === 0) return;
    reads.ended(ids).then(
      (ended) => ended.forEach((id) => topics.publish({ id, event: 'done' })),
      (error: unknown) => logger.warn({ error }, 'job_listener.look_failed'),
    );
  }, pollIntervalMs);
  return {
    subscribe: topics.subscribe,
    /** Calls `watcher` for every change from now on. */
    watch: (watcher: (change: JobChange) => void) => void watchers.add(watcher),
    /** Notifies all watchers that they may miss changes from now on. */
    interrupt,
    /**
     * Interrupts the watchers, and ends every `next` that waits: the process stops, so no request
     * may wait for a job.
     */
    drain(): void {
      isDraining = true;
      interrupt();
      topics.wake();
    },
    /** True if the process is stopping. */
    get isDraining(): boolean {
      return isDraining;
    },
    async close(): Promise<void> {
      clearInterval(timer);
      await stopListening();
    },
  };
}

/**
 * Listens to notifications and connects again after each loss of the connection; returns the
 * function that stops. `onEnd` is called when a connection has ended.
 */
async function listen(
  { databaseUrl, logger }: UpdatesDeps,
  receive: (payload: string) => void,
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
    next.on('notification', ({ payload }) => receive(payload ?? ''));
    try {
      await next.connect();
      await next.query('LISTEN studio_job');
    } catch (error) {
      logger.warn({ error }, 'job_listener.not_connected');
      // If a client never connected, it does not always emit `end`, so the reconnect is scheduled
      // here.
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
