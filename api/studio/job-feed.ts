/**
 * Jobs as server-sent events, each time they have changed: one job, or all of an organization. Postgres tells which
 * jobs begin and end; while some are open and somebody follows them they are read once a second, for all readers of
 * an organization together. When nothing happens nothing is asked, but whether the keys of the readers still may.
 */
import type { PassThrough } from 'node:stream';
import { sql } from 'slonik';
import { z } from 'zod';
import type { JobReads, JobRecord } from '../../activities/jobs/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { JobView } from '../../studio/job-view.ts';
import type { JobNews } from './job-news.ts';

interface Reader {
  organizationId: string;
  keyId: string;
  events: PassThrough;
}

interface JobFeedDeps {
  pool: DatabasePool;
  news: JobNews;
  reads: JobReads;
  view: JobView;
  logger: Logger;
}

/** Readers of one organization, and the jobs that are shown to them. */
interface Topic {
  readers: Set<Reader>;
  /** To be read at the next tick. */
  changed: Set<string>;
  /** Open jobs, as they were shown. */
  open: Map<string, string>;
}

const tickMs = 1000;
const keysEvery = 5;
const keepaliveEvery = 15;
const readersMax = 1000;
/** Of an organization, at a time. */
const openMax = 200;
/** A reader that takes nothing for long is let go. */
const unreadBytesMax = 4 * 1024 * 1024;
const keyRow = z.object({ id: z.string() });

/** Those who follow all jobs of their organizations. */
export function createJobFeed(deps: JobFeedDeps) {
  const topics = new Map<string, Topic>();
  let timer: NodeJS.Timeout | undefined;
  let ticks = 0;

  const readers = (): Reader[] => [...topics.values()].flatMap((topic) => [...topic.readers]);

  function leave(reader: Reader): void {
    const topic = topics.get(reader.organizationId);
    topic?.readers.delete(reader);
    if (topic?.readers.size === 0) topics.delete(reader.organizationId);
    reader.events.end();
  }

  function schedule(): void {
    timer = setTimeout(
      () => void tick().finally(() => (topics.size > 0 ? schedule() : rest())),
      tickMs,
    );
  }

  function rest(): void {
    timer = undefined;
  }

  async function tick(): Promise<void> {
    ticks += 1;
    if (ticks % keepaliveEvery === 0)
      for (const { events } of readers()) events.write(': keepalive\n\n');
    try {
      if (ticks % keysEvery === 0) await refuseDeadKeys(deps.pool, readers(), leave);
      for (const [organizationId, topic] of topics) await show(deps, organizationId, topic);
    } catch (error) {
      deps.logger.warn({ error }, 'job_feed.interrupted');
      for (const reader of readers()) leave(reader);
    }
    for (const reader of readers()) {
      if (reader.events.writableLength > unreadBytesMax) leave(reader);
    }
  }

  deps.news.watch((change) => {
    if (change === 'interrupted') for (const reader of readers()) leave(reader);
    else topics.get(change.organizationId)?.changed.add(change.jobId);
  });

  return {
    /** Writes to `events` until it is closed, or ends it. @throws GatewayError SERVICE_UNAVAILABLE */
    follow(reader: Reader): void {
      if (readers().length >= readersMax) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many streams are open.', {
          retryAfterSeconds: 5,
        });
      }
      const { organizationId, events } = reader;
      const topic: Topic = topics.get(organizationId) ?? {
        readers: new Set(),
        changed: new Set(),
        open: new Map(),
      };
      topics.set(organizationId, topic);
      topic.readers.add(reader);
      events.once('close', () => leave(reader));
      events.write(': following\n\n');
      if (timer === undefined) schedule();
      void begin(deps, organizationId, topic).catch(() => leave(reader));
    },
  };
}

/** Whoever comes is shown what is open. */
async function begin({ reads }: JobFeedDeps, organizationId: string, topic: Topic): Promise<void> {
  const open = await reads.list(organizationId, { status: 'open', limit: openMax });
  for (const { id } of open) {
    topic.changed.add(id);
    topic.open.delete(id);
  }
}

async function show(
  { reads, view }: JobFeedDeps,
  organizationId: string,
  topic: Topic,
): Promise<void> {
  const ids = [...new Set([...topic.changed, ...topic.open.keys()])].slice(0, openMax);
  if (ids.length === 0) return;
  for (const id of ids) topic.changed.delete(id);
  for (const job of await reads.some(organizationId, ids)) {
    const mark = markOf(job);
    if (topic.open.get(job.id) !== mark) {
      const text = `event: job\ndata: ${JSON.stringify(await view.resource(job))}\n\n`;
      for (const { events } of topic.readers) events.write(text);
    }
    if (job.status === 'queued') topic.open.set(job.id, mark);
    else topic.open.delete(job.id);
  }
}

/** A key that was revoked, or whose organization was suspended, reads no further. */
async function refuseDeadKeys(
  pool: DatabasePool,
  readers: readonly Reader[],
  leave: (reader: Reader) => void,
): Promise<void> {
  const keyIds = sql.array([...new Set(readers.map(({ keyId }) => keyId))], 'text');
  const live = new Set(
    await pool.anyFirst(sql.type(keyRow)`
      SELECT k.id FROM api_key k JOIN organization o ON o.id = k.organization_id
      WHERE k.id = ANY(${keyIds}) AND k.revoked_at IS NULL AND o.status = 'active'
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())`),
  );
  for (const reader of readers) if (!live.has(reader.keyId)) leave(reader);
}

interface JobStream {
  events: PassThrough;
  first: JobRecord;
  view: JobView;
  /** The job after a change, or after a short while without one. */
  next: (last: JobRecord) => Promise<JobRecord>;
}

const keepaliveIntervalMs = 15_000;

/** Writes one job until it is done or the reader is gone. Never throws. */
export async function streamJob(stream: JobStream): Promise<void> {
  const { events, view } = stream;
  const keepalive = setInterval(() => events.write(': keepalive\n\n'), keepaliveIntervalMs);
  let job = stream.first;
  let shown = '';
  try {
    for (;;) {
      const mark = markOf(job);
      if (mark !== shown) {
        const resource = await view.resource(job);
        events.write(`event: job\ndata: ${JSON.stringify(resource)}\n\n`);
      }
      shown = mark;
      if (job.status !== 'queued' || events.destroyed) break;
      job = await stream.next(job);
    }
  } catch {
    // The stream ends without a `done` state; a reader connects again or polls.
  } finally {
    clearInterval(keepalive);
    events.end();
  }
}

/** What tells one state from the next; result URLs do not, they are signed anew each time. */
function markOf(job: JobRecord): string {
  return JSON.stringify([job.status, job.call_states, job.progress, job.verifying]);
}
