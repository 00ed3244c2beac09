/**
 * Job feed: streams changed jobs to readers as server-sent events. A reader receives one job or all
 * jobs of its organization. Postgres NOTIFY reports jobs that start or end. Open jobs with readers
 * are read once a second, with one query per organization. Every five seconds, one query checks the
 * keys and sessions of all streams; streams with a revoked key or an ended session are closed.
 */
import type { PassThrough } from 'node:stream';
import { sql } from 'slonik';
import { z } from 'zod';
import type { JobReads, JobRecord } from './job-reads.ts';
import { withCorrelation, withoutCorrelation, type Logger } from '../../platform/logger.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { JobResource, JobView } from './job-view.ts';
import type { JobUpdates } from './job-updates.ts';

interface Reader {
  organizationId: string;
  keyId: string;
  /** Id of the reader's console session. Undefined if the reader authenticated with a key. */
  sessionId: string | undefined;
  /** Id of the only job that the reader receives. Null: all jobs of the organization. */
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

/** Readers of one organization, and the jobs that they receive. */
interface Topic {
  readers: Set<Reader>;
  /** Ids of changed jobs, which are read at the next tick. */
  changedIds: Set<string>;
  /** Fingerprint of each open job as it was last sent, keyed by job id. */
  fingerprints: Map<string, string>;
  /** True while the jobs of the organization are being read. */
  isReading: boolean;
}

const tickMs = 1000;
/** Number of ticks between checks of the readers' keys. */
const keyCheckTicks = 5;
/** Number of ticks between keepalive comments. */
const keepaliveTicks = 15;
/** Maximum number of jobs to read per organization and tick. */
const jobsPerReadMax = 200;
/** Maximum number of bytes that a reader has not read; with more, it is disconnected. */
const unreadBytesMax = 1024 * 1024;
const idRow = z.object({ id: z.string() });

/** Creates the job feed of a process. */
export function createJobFeed(deps: JobFeedDeps) {
  const topics = new Map<string, Topic>();
  let timer: NodeJS.Timeout | undefined;
  let ticks = 0;

  const readers = (): Reader[] => [...topics.values()].flatMap((topic) => [...topic.readers]);

  function disconnect(reader: Reader): void {
    const topic = topics.get(reader.organizationId);
    topic?.readers.delete(reader);
    if (topic?.readers.size === 0) topics.delete(reader.organizationId);
    reader.events.end();
  }

  function disconnectAll(error: unknown, affected: Iterable<Reader>): void {
    deps.logger.warn({ error }, 'job_feed.interrupted');
    for (const reader of affected) disconnect(reader);
  }

  function tick(): void {
    ticks += 1;
    if (ticks % keepaliveTicks === 0)
      for (const { events } of readers()) events.write(': keepalive\n\n');
    if (ticks % keyCheckTicks === 0) {
      closeStreamsOfInvalidKeys(deps.pool, readers(), disconnect).catch((error: unknown) =>
        disconnectAll(error, readers()),
      );
    }
    for (const [organizationId, topic] of topics) {
      void refreshTopic(deps, organizationId, topic).catch((error: unknown) =>
        disconnectAll(error, topic.readers),
      );
    }
    for (const reader of readers().filter(isTooSlow)) disconnect(reader);
    if (topics.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  }

  deps.updates.watch((change) => {
    if (change === 'interrupted') for (const reader of readers()) disconnect(reader);
    else topics.get(change.organizationId)?.changedIds.add(change.jobId);
  });

  return {
    /**
     * Writes the jobs of a reader to its stream `events`, until the stream is closed or the
     * reader's only job has ended. Resolves when the current jobs are written.
     */
    async follow(reader: Reader): Promise<void> {
      const { organizationId, events } = reader;
      const topic: Topic = topics.get(organizationId) ?? {
        readers: new Set(),
        changedIds: new Set(),
        fingerprints: new Map(),
        isReading: false,
      };
      topics.set(organizationId, topic);
      topic.readers.add(reader);
      events.once('close', () => disconnect(reader));
      events.write(': following\n\n');
      timer ??= withoutCorrelation(() => setInterval(tick, tickMs));
      await sendCurrentJobs(deps, reader, topic).catch(() => disconnect(reader));
    },
  };
}

const isTooSlow = ({ events }: Reader): boolean => events.writableLength > unreadBytesMax;

/** Sends a new reader the current state of its only job, or of all open jobs. */
async function sendCurrentJobs(
  { reads, view }: JobFeedDeps,
  reader: Reader,
  topic: Topic,
): Promise<void> {
  const { organizationId, jobId, events } = reader;
  const jobs =
    jobId === null
      ? await reads.list(organizationId, { status: 'open', limit: jobsPerReadMax })
      : [await reads.read(organizationId, jobId)].filter((job) => job !== null);
  for (const job of jobs) {
    events.write(encodeEvent(await view.resource(job)));
    if (job.status !== 'open') events.end();
    else if (!topic.fingerprints.has(job.id))
      topic.fingerprints.set(job.id, createFingerprint(job));
  }
}

/** Encodes a job as a server-sent event. All readers of the organization receive the same bytes. */
const encodeEvent = (job: JobResource): Buffer =>
  Buffer.from(`event: job\ndata: ${JSON.stringify(job)}\n\n`);

/** Reads the jobs of an organization, unless they are still being read. */
async function refreshTopic(
  deps: JobFeedDeps,
  organizationId: string,
  topic: Topic,
): Promise<void> {
  if (topic.isReading) return;
  topic.isReading = true;
  try {
    await withCorrelation({ organizationId }, () => sendChanges(deps, organizationId, topic));
  } finally {
    topic.isReading = false;
  }
}

async function sendChanges(deps: JobFeedDeps, organizationId: string, topic: Topic): Promise<void> {
  const { reads, view } = deps;
  const readerJobIds = new Set([...topic.readers].map(({ jobId }) => jobId));
  const hasReader = (id: string): boolean => readerJobIds.has(null) || readerJobIds.has(id);
  for (const id of topic.fingerprints.keys()) if (!hasReader(id)) topic.fingerprints.delete(id);
  const ids = [...new Set([...topic.changedIds, ...topic.fingerprints.keys()])].filter(hasReader);
  topic.changedIds.clear();
  if (ids.length === 0) return;
  const idsToRead = ids.splice(0, jobsPerReadMax);
  // The remaining jobs are read at the next tick.
  for (const id of ids) topic.changedIds.add(id);
  for (const job of await reads.readMany(organizationId, idsToRead)) {
    const isOpen = job.status === 'open';
    const fingerprint = createFingerprint(job);
    if (topic.fingerprints.get(job.id) !== fingerprint) {
      const event = encodeEvent(await view.resource(job));
      for (const { jobId, events } of topic.readers) {
        if (jobId === null || (jobId === job.id && isOpen)) events.write(event);
      }
    }
    if (!isOpen) await sendEnd(deps, job, topic);
    if (isOpen) topic.fingerprints.set(job.id, fingerprint);
    else topic.fingerprints.delete(job.id);
  }
}

/**
 * Sends an ended job with its complete result to the readers that receive only this job, and ends
 * their streams.
 */
async function sendEnd(
  { reads, view }: JobFeedDeps,
  { id, organizationId }: JobRecord,
  topic: Topic,
): Promise<void> {
  const jobReaders = [...topic.readers].filter(({ jobId }) => jobId === id);
  if (jobReaders.length === 0) return;
  const job = await reads.read(organizationId, id);
  const event = job && encodeEvent(await view.resource(job));
  for (const { events } of jobReaders) events.end(event);
}

/**
 * Ends the streams of keys that were revoked or have expired, of suspended organizations, and of
 * console sessions that have ended.
 */
export async function closeStreamsOfInvalidKeys<Access extends Pick<Reader, 'keyId' | 'sessionId'>>(
  pool: DatabasePool,
  readers: readonly Access[],
  disconnect: (reader: Access) => void,
): Promise<void> {
  const listAccessIds = ({ keyId, sessionId }: Access): string[] =>
    sessionId === undefined ? [keyId] : [keyId, sessionId];
  const ids = sql.array([...new Set(readers.flatMap(listAccessIds))], 'text');
  const live = new Set(
    await pool.anyFirst(sql.type(idRow)`
      SELECT k.id FROM api_key k JOIN organization o ON o.id = k.organization_id
      WHERE k.id = ANY(${ids}) AND k.revoked_at IS NULL AND o.status = 'active'
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
      UNION ALL SELECT id FROM console_session
      WHERE id = ANY(${ids}) AND expires_at > clock_timestamp()`),
  );
  for (const reader of readers) {
    if (!listAccessIds(reader).every((id) => live.has(id))) disconnect(reader);
  }
}

/**
 * Returns a string that changes whenever the job's state changes. Result URLs are not part of it,
 * because they differ in each response.
 */
function createFingerprint(job: JobRecord): string {
  return JSON.stringify([job.status, job.callStates, job.queuePosition, job.verifying]);
}
