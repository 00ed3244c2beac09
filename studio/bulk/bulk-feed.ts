/**
 * Streams changed bulk jobs to readers as server-sent events, and waits for the end of bulk jobs. The
 * bulk jobs of all readers are read once a second with one query.
 */
import { formatEvent } from '../../domain/event-lines.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { JobUpdates } from '../jobs/job-updates.ts';
import { createStreamTimer, tickMs, type StreamReader } from '../jobs/stream-timer.ts';
import type { BulkReads, BulkRecord } from './bulk-reads.ts';
import type { BulkResource, BulkView } from './bulk-view.ts';

interface Reader extends StreamReader {
  bulkId: string;
  /** Event that was sent last. */
  sent: string;
}

interface BulkFeedDeps {
  pool: DatabasePool;
  updates: JobUpdates;
  bulkReads: BulkReads;
  bulkView: BulkView;
  logger: Logger;
}

/** Creates the feed of a process. */
export function createBulkFeed(deps: BulkFeedDeps) {
  const { pool, updates, bulkReads, bulkView, logger } = deps;
  const readers = new Set<Reader>();
  let isReading = false;

  function disconnect(reader: Reader): void {
    readers.delete(reader);
    reader.events.end();
  }

  function send(reader: Reader, bulk: BulkRecord): void {
    const resource = bulkView.resource(bulk);
    writeChange(reader, resource);
    if (resource.done) disconnect(reader);
  }

  async function sendChanges(): Promise<void> {
    if (isReading) return;
    isReading = true;
    try {
      const ids = new Set([...readers].map(({ bulkId }) => bulkId));
      const bulks = new Map((await bulkReads.readMany([...ids])).map((bulk) => [bulk.id, bulk]));
      for (const reader of readers) {
        const bulk = bulks.get(reader.bulkId);
        if (bulk) send(reader, bulk);
      }
    } catch (error) {
      interrupt(error);
    } finally {
      isReading = false;
    }
  }

  function disconnectAll(): void {
    for (const reader of readers) disconnect(reader);
  }

  function interrupt(error: unknown): void {
    logger.warn({ error }, 'bulk_feed.interrupted');
    disconnectAll();
  }

  const startTimer = createStreamTimer({
    pool,
    listReaders: () => [...readers],
    disconnect,
    interrupt,
    sendChanges: () => void sendChanges(),
  });

  updates.watch((change) => {
    if (change === 'interrupted' && updates.isDraining) disconnectAll();
  });

  return {
    /** Writes a bulk job to the stream of a reader, now and after each change, until it has ended. */
    follow(bulk: BulkRecord, access: Omit<Reader, 'bulkId' | 'sent'>): void {
      const reader: Reader = { bulkId: bulk.id, sent: '', ...access };
      readers.add(reader);
      reader.events.once('close', () => disconnect(reader));
      startTimer();
      send(reader, bulk);
    },
    /** Waits until a bulk job has ended, but at most `waitMs` milliseconds. Returns its row. */
    awaitEnd: (bulk: BulkRecord, waitMs: number, signal: AbortSignal): Promise<BulkRecord> =>
      awaitEnd(deps, bulk, { waitMs, signal }),
  };
}

/** Writes a bulk job as an event, unless only its estimate of the remaining time has changed. */
function writeChange(reader: Reader, resource: BulkResource): void {
  const state = JSON.stringify({ ...resource, etaSeconds: null });
  if (state !== reader.sent) reader.events.write(formatEvent(resource, 'bulk'));
  reader.sent = state;
}

async function awaitEnd(
  { updates, bulkReads }: Pick<BulkFeedDeps, 'updates' | 'bulkReads'>,
  bulk: BulkRecord,
  { waitMs, signal }: { waitMs: number; signal: AbortSignal },
): Promise<BulkRecord> {
  const subscription = updates.subscribe(bulk.id);
  const end = (): void => subscription.end();
  signal.addEventListener('abort', end);
  try {
    const deadlineAtMs = performance.now() + waitMs;
    for (;;) {
      const row = (await bulkReads.read(bulk.organization_id, bulk.id)) ?? bulk;
      const remainingMs = deadlineAtMs - performance.now();
      const mustReturn = row.completed_at !== null || remainingMs <= 0 || signal.aborted;
      if (mustReturn || updates.isDraining) return row;
      await subscription.next(Math.min(remainingMs, tickMs));
    }
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}
