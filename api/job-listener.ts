/**
 * Hears of jobs that changed in other processes, and of leased credits that others need: LISTEN on
 * Postgres, and a slow look at the jobs somebody waits for, because a notification can be lost with
 * its connection (a lease goes back by itself).
 */
import { Client } from 'pg';
import { z } from 'zod';
import type { Chat } from '../activities/chat/chat.ts';
import type { JobNews } from '../activities/jobs/job-news.ts';
import type { JobReads } from '../activities/jobs/job-reads.ts';
import type { Logger } from '../platform/logger.ts';

interface ListenerDeps {
  databaseUrl: string;
  news: JobNews;
  reads: JobReads;
  chat: Pick<Chat, 'recall'>;
  logger: Logger;
}

/** As `ledger_write_jobs` writes it. */
const notice = z.object({
  id: z.string(),
  /** Absent in what functions of a version before tell. */
  organizationId: z.string().optional(),
  event: z.enum(['reserved', 'done']),
});
const lookIntervalMs = 1000;
const reconnectMs = 1000;

/** Starts listening; returns what stops it. */
export function startJobListener(deps: ListenerDeps): () => Promise<void> {
  let stopped = false;
  let client: Client | undefined;
  let reconnect: NodeJS.Timeout | undefined;

  async function connect(): Promise<void> {
    const next = new Client({ connectionString: deps.databaseUrl, keepAlive: true });
    client = next;
    next.on('error', (error) => deps.logger.warn({ error }, 'job_listener.connection_lost'));
    next.on('end', () => {
      deps.news.announce('interrupted');
      if (!stopped) reconnect = setTimeout(() => void connect(), reconnectMs);
    });
    next.on('notification', ({ channel, payload }) => {
      if (channel === 'chat_lease') {
        deps.chat.recall(payload ?? '');
        return;
      }
      const told = notice.parse(JSON.parse(payload ?? ''));
      deps.news.publish(told.id, { kind: told.event === 'done' ? 'done' : 'changed' });
      const { id: jobId, organizationId } = told;
      if (organizationId !== undefined) deps.news.announce({ jobId, organizationId });
    });
    try {
      await next.connect();
      await next.query('LISTEN studio_job; LISTEN chat_lease');
    } catch (error) {
      deps.logger.warn({ error }, 'job_listener.not_connected');
      // A client that never connected does not always end by itself.
      next.removeAllListeners('end');
      await next.end().catch(() => {});
      if (!stopped) reconnect = setTimeout(() => void connect(), reconnectMs);
    }
  }

  async function look(): Promise<void> {
    const awaited = deps.news.awaited();
    if (awaited.length === 0) return;
    try {
      for (const jobId of await deps.reads.ended(awaited))
        deps.news.publish(jobId, { kind: 'done' });
    } catch (error) {
      deps.logger.warn({ error }, 'job_listener.look_failed');
    }
  }

  void connect();
  const timer = setInterval(() => void look(), lookIntervalMs);
  return async () => {
    stopped = true;
    clearInterval(timer);
    clearTimeout(reconnect);
    await client?.end().catch(() => {});
  };
}
