/**
 * Job feed: server-sent events of jobs that have changed, for readers that follow one job or all
 * jobs of their organization. NOTIFY names jobs that start and end. Open jobs that have a reader
 * are read once a second, with one query per organization. Idle streams cost one query for all keys
 * every five seconds, which ends the streams of revoked keys and ended sessions.
 */
import type { PassThrough } from 'node:stream';
import { sql } from 'slonik';
import { z } from 'zod';
import type { JobReads, JobRecord } from '../../jobs/records/job-reads.ts';
import { withCorrelation, withoutCorrelation } from '../../platform/correlation.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { JobResource } from '../../studio/job-resource.ts';
import type { JobView } from '../../studio/job-view.ts';
import type { JobUpdates } from './job-updates.ts';

interface Reader {
  organizationId: string;
  keyId: string;
  /** Console session of the reader; undefined if it has a key. */
  sessionId: string | undefined;
  /** Id of the job that is followed; null: all jobs of the organization. */
  jobId: string | null;
  events: PassThrough;
}

interface JobFeedDeps {
  pool: DatabasePool;
  updates: JobUpdates;
  reads: JobReads;
  view: JobView;
  logger: Logger;
}

/** Readers of one organization, and the jobs that they follow. */
interface Topic {
  readers: Set<Reader>;
  /** Ids of jobs to read at the next tick. */
  changed: Set<string>;
  /** State of each open job, as it was last sent (`markOf`). */
  open: Map<string, string>;
  /** True while the jobs of the organization are being read. */
  isRead: boolean;
}

const tickMs = 1000;
/** Number of ticks between two checks of the readers' keys. */
const keysEvery = 5;
/** Number of ticks between two keepalive comments. */
const keepaliveEvery = 15;
/** Highest number of open jobs of one organization that are read in one tick. */
const openMax = 200;
/** Unread bytes after which a reader is disconnected. */
const unreadBytesMax = 1024 * 1024;
const idRow = z.object({ id: z.string() });

/** Makes the job feed of a process. */
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

  function interrupt(error: unknown, affected: Iterable<Reader>): void {
    deps.logger.warn({ error }, 'job_feed.interrupted');
    for (const reader of affected) leave(reader);
  }

  function tick(): void {
    ticks += 1;
    if (ticks % keepaliveEvery === 0)
      for (const { events } of readers()) events.write(': keepalive\n\n');
    if (ticks % keysEvery === 0) {
      refuseDeadKeys(deps.pool, readers(), leave).catch((error: unknown) =>
        interrupt(error, readers()),
      );
    }
    for (const [organizationId, topic] of topics) {
      void refresh(deps, organizationId, topic).catch((error: unknown) =>
        interrupt(error, topic.readers),
      );
    }
    for (const reader of readers().filter(isBehind)) leave(reader);
    if (topics.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  }

  deps.updates.watch((change) => {
    if (change === 'interrupted') for (const reader of readers()) leave(reader);
    else topics.get(change.organizationId)?.changed.add(change.jobId);
  });

  return {
    /**
     * Writes the jobs of a reader to its stream `events`, until the stream is closed or the
     * followed job has ended.
     */
    follow(reader: Reader): void {
      const { organizationId, events } = reader;
      const topic: Topic = topics.get(organizationId) ?? {
        readers: new Set(),
        changed: new Set(),
        open: new Map(),
        isRead: false,
      };
      topics.set(organizationId, topic);
      topic.readers.add(reader);
      events.once('close', () => leave(reader));
      events.write(': following\n\n');
      timer ??= withoutCorrelation(() => setInterval(tick, tickMs));
      void begin(deps, reader, topic).catch(() => leave(reader));
    },
  };
}

const isBehind = ({ events }: Reader): boolean => events.writableLength > unreadBytesMax;

/** Sends a new reader the job that it follows, or all open jobs. */
async function begin({ reads, view }: JobFeedDeps, reader: Reader, topic: Topic): Promise<void> {
  const { organizationId, jobId, events } = reader;
  const jobs =
    jobId === null
      ? await reads.list(organizationId, { status: 'open', limit: openMax })
      : [await reads.read(organizationId, jobId)].filter((job) => job !== null);
  for (const job of jobs) {
    events.write(eventOf(await view.resource(job)));
    if (job.status !== 'open') events.end();
    else if (!topic.open.has(job.id)) topic.open.set(job.id, markOf(job));
  }
}

/** Makes the bytes of an event once, because all readers of an organization share them. */
const eventOf = (job: JobResource): Buffer =>
  Buffer.from(`event: job\ndata: ${JSON.stringify(job)}\n\n`);

/** Reads the jobs of an organization, unless they are still being read. */
async function refresh(deps: JobFeedDeps, organizationId: string, topic: Topic): Promise<void> {
  if (topic.isRead) return;
  topic.isRead = true;
  try {
    await withCorrelation({ organizationId }, () => show(deps, organizationId, topic));
  } finally {
    topic.isRead = false;
  }
}

async function show(deps: JobFeedDeps, organizationId: string, topic: Topic): Promise<void> {
  const { reads, view } = deps;
  const followed = new Set([...topic.readers].map(({ jobId }) => jobId));
  const isFollowed = (id: string): boolean => followed.has(null) || followed.has(id);
  for (const id of topic.open.keys()) if (!isFollowed(id)) topic.open.delete(id);
  const ids = [...new Set([...topic.changed, ...topic.open.keys()])].filter(isFollowed);
  topic.changed.clear();
  if (ids.length === 0) return;
  for (const id of ids.slice(openMax)) topic.changed.add(id);
  for (const job of await reads.some(organizationId, ids.slice(0, openMax))) {
    const isOpen = job.status === 'open';
    const mark = markOf(job);
    if (topic.open.get(job.id) !== mark) {
      const event = eventOf(await view.resource(job));
      for (const { jobId, events } of topic.readers) {
        if (jobId === null || (jobId === job.id && isOpen)) events.write(event);
      }
    }
    if (!isOpen) await sendEnd(deps, job, topic);
    if (isOpen) topic.open.set(job.id, mark);
    else topic.open.delete(job.id);
  }
}

/**
 * Sends a finished job with its complete result to the readers that follow only this job, and ends
 * their streams.
 */
async function sendEnd(
  { reads, view }: JobFeedDeps,
  { id, organization_id: organizationId }: JobRecord,
  topic: Topic,
): Promise<void> {
  const followers = [...topic.readers].filter(({ jobId }) => jobId === id);
  if (followers.length === 0) return;
  const job = await reads.read(organizationId, id);
  const event = job && eventOf(await view.resource(job));
  for (const { events } of followers) events.end(event);
}

/**
 * Ends the streams of keys that were revoked or have expired, of suspended organizations, and of
 * console sessions that have ended.
 */
async function refuseDeadKeys(
  pool: DatabasePool,
  readers: readonly Reader[],
  leave: (reader: Reader) => void,
): Promise<void> {
  const accessOf = ({ keyId, sessionId }: Reader): string[] =>
    sessionId === undefined ? [keyId] : [keyId, sessionId];
  const ids = sql.array([...new Set(readers.flatMap(accessOf))], 'text');
  const live = new Set(
    await pool.anyFirst(sql.type(idRow)`
      SELECT k.id FROM api_key k JOIN organization o ON o.id = k.organization_id
      WHERE k.id = ANY(${ids}) AND k.revoked_at IS NULL AND o.status = 'active'
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
      UNION ALL SELECT id FROM console_session
      WHERE id = ANY(${ids}) AND expires_at > clock_timestamp()`),
  );
  for (const reader of readers) {
    if (!accessOf(reader).every((id) => live.has(id))) leave(reader);
  }
}

/** Describes the state of a job, without the result URLs, which are different in each response. */
function markOf(job: JobRecord): string {
  return JSON.stringify([job.status, job.call_states, job.queue_position, job.verifying]);
}
