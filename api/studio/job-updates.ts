/**
 * Job updates: Postgres notifies every API process of each job whose credits are reserved, that is
 * rejected, or that ends (`ledger_write_jobs`). A lost connection can drop notifications, so the
 * rows of awaited jobs are also read once a second. The row of a job is authoritative.
 */
import { Client } from 'pg';
import type { JobReads } from '../../jobs/records/job-reads.ts';
import type { Logger } from '../../platform/logger.ts';
import { createTopics, jobEvent } from './job-topics.ts';

/**
 * Job whose credits were reserved or that has ended. `interrupted` means that some changes may have
 * been missed.
 */
export type JobChange = { organizationId: string; jobId: string } | 'interrupted';

/** Notifications of changed jobs from Postgres. */
export type JobUpdates = Awaited<ReturnType<typeof openJobUpdates>>;

interface UpdatesDeps {
  databaseUrl: string;
  reads: Pick<JobReads, 'ended'>;
  logger: Logger;
}

/** Interval between reads of the rows of awaited jobs, in milliseconds. */
const pollIntervalMs = 1000;
const reconnectMs = 1000;
const connectTimeoutMs = 5000;

/**
 * Starts listening to job events. Returns functions to subscribe to one job or to watch all
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
    if (event.event === 'rejected' || event.organizationId === undefined) return;
    announce({ jobId: event.id, organizationId: event.organizationId });
  }

  const interrupt = (): void => announce('interrupted');
  let isDraining = false;
  const stopListening = await listen(deps, receive, interrupt);
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
 * Listens to notifications, and reconnects whenever the connection is lost. Returns a function that
 * stops listening. Calls `onEnd` whenever a connection ends.
 */
async function listen(
  { databaseUrl, logger }: UpdatesDeps,
  receive: (payload: string) => void,
  onEnd: () => void,
): Promise<() => Promise<void>> {
  let isStopped = false;
  let client: Client | undefined;
  let reconnect: NodeJS.Timeout | undefined;

  function scheduleReconnect(): void {
    if (!isStopped) reconnect = setTimeout(() => void connect(), reconnectMs);
  }

  async function connect(): Promise<void> {
    const newClient = new Client({
      connectionString: databaseUrl,
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
    });
    client = newClient;
    newClient.on('error', (error) => logger.warn({ error }, 'job_listener.connection_lost'));
    newClient.on('end', () => {
      onEnd();
      scheduleReconnect();
    });
    newClient.on('notification', ({ payload }) => receive(payload ?? ''));
    try {
      await newClient.connect();
      await newClient.query('LISTEN studio_job');
    } catch (error) {
      logger.warn({ error }, 'job_listener.not_connected');
      // A client that never connected does not always emit `end`, so the reconnection is scheduled
      // here.
      newClient.removeAllListeners('end');
      await newClient.end().catch(() => {});
      scheduleReconnect();
    }
  }

  await connect();
  return async () => {
    isStopped = true;
    clearTimeout(reconnect);
    await client?.end().catch(() => {});
  };
}
