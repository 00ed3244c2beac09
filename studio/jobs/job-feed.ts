/**
 * Job feed: streams changed jobs to readers as server-sent events. A reader receives one job or all
 * jobs of its organization. Postgres NOTIFY reports jobs that start or end. Open jobs with readers
 * are read once a second, with one query per organization.
 */
import { formatEvent } from '../../domain/event-lines.ts';
import type { JobReads, JobRecord } from './job-reads.ts';
import { withCorrelation, type Logger } from '../../platform/logger.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { createStreamTimer, type StreamReader } from './stream-timer.ts';
import type { JobResource, JobView } from './job-view.ts';
import type { JobUpdates } from './job-updates.ts';

interface Reader extends StreamReader {
  organizationId: string;
  /** Id of the only job that the reader receives. Null: all jobs of the organization. */
  jobId: string | null;
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

/** Maximum number of jobs to read per organization and tick. */
const jobsPerReadMax = 200;

/** Creates the job feed of a process. */
export function createJobFeed(deps: JobFeedDeps) {
  const topics = new Map<string, Topic>();

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

  function sendAllChanges(): void {
    for (const [organizationId, topic] of topics) {
      void refreshTopic(deps, organizationId, topic).catch((error: unknown) =>
        disconnectAll(error, topic.readers),
      );
    }
  }

  const startTimer = createStreamTimer({
    pool: deps.pool,
    listReaders: readers,
    disconnect,
    interrupt: disconnectAll,
    sendChanges: sendAllChanges,
  });

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
      startTimer();
      await sendCurrentJobs(deps, reader, topic).catch(() => disconnect(reader));
    },
  };
}

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
const encodeEvent = (job: JobResource): Buffer => Buffer.from(formatEvent(job, 'job'));

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
 * Returns a string that changes whenever the job's state changes. Result URLs are not part of it,
 * because they differ in each response.
 */
function createFingerprint(job: JobRecord): string {
  return JSON.stringify([job.status, job.callStates, job.queuePosition, job.verifying]);
}
