/**
 * Event streams of executions: sends the changed rows of a kind to readers as server-sent events. A
 * reader receives one execution or all executions of its organization. Postgres NOTIFY reports those
 * that start or end. Open ones with readers are read once a second, with one query per organization.
 */
import type { PassThrough } from 'node:stream';
import { sql } from 'slonik';
import { z } from 'zod';
import { formatEvent } from '../domain/event-lines.ts';
import type { DatabasePool } from '../platform/database.ts';
import { withCorrelation, withoutCorrelation, type Logger } from '../platform/logger.ts';
import type { AwaitedKind, Updates } from './updates.ts';

/** Kind of executions that readers can follow. */
export interface FollowedKind<Row extends { id: string }> extends AwaitedKind<Row> {
  /** Name of the events. */
  event: string;
  /** Reads the executions with these ids, and their complete results. Omits those of other organizations. */
  readMany: (organizationId: string, ids: readonly string[]) => Promise<readonly Row[]>;
  /** Returns a text that changes with the state that readers see. */
  fingerprint: (row: Row) => string;
  /** Returns the end user of an execution, whose browser tokens may follow it. Absent: none may. */
  endUserOf?: (row: Row) => string | null;
  /** Renders a row as the resource that readers receive. */
  show: (row: Row) => object | Promise<object>;
}

/** Access of the reader of a stream, which ends with it. */
interface Access {
  keyId: string;
  /** Browser token of the reader, which receives only the executions of its end user. */
  token: { tokenId: string; endUser: string } | null | undefined;
  /** Id of the reader's console session. Undefined if the reader authenticated with a key. */
  sessionId: string | undefined;
}

/** Reader of an event stream. */
interface Reader extends Access {
  organizationId: string;
  /** Id of the only execution that the reader receives. Null: all executions of the organization. */
  id: string | null;
  events: PassThrough;
}

/** Readers of one organization, and the executions that they receive. */
interface Topic {
  readers: Set<Reader>;
  /** Ids of changed executions, which are read at the next tick. */
  changedIds: Set<string>;
  /** Fingerprint of each open execution as it was last sent, keyed by id. */
  fingerprints: Map<string, string>;
  /** True while the executions of the organization are being read. */
  isReading: boolean;
}

interface FeedDeps {
  pool: DatabasePool;
  updates: Updates;
  logger: Logger;
}

/** Interval at which changes are sent, in milliseconds. */
const tickMs = 1000;
/** Number of ticks between checks of the readers' keys. */
const keyCheckTicks = 5;
/** Number of ticks between keepalive comments. */
const keepaliveTicks = 15;
/** Maximum number of bytes that a reader has not read; with more, it is disconnected. */
const unreadBytesMax = 1024 * 1024;
/** Maximum number of rows to read per organization and tick. */
export const rowsPerReadMax = 200;

/** Creates the set of the readers of a feed, by organization. */
function createReaders(logger: Logger, event: string) {
  const topics = new Map<string, Topic>();
  function disconnect(reader: Reader): void {
    const topic = topics.get(reader.organizationId);
    topic?.readers.delete(reader);
    if (topic?.readers.size === 0) topics.delete(reader.organizationId);
    reader.events.end();
  }
  return {
    topics,
    list: (): Reader[] => [...topics.values()].flatMap(({ readers }) => [...readers]),
    add(reader: Reader): Topic {
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
      return topic;
    },
    disconnect,
    interrupt(error: unknown, affected: Iterable<Reader>): void {
      logger.warn({ error }, `${event}_feed.interrupted`);
      for (const reader of affected) disconnect(reader);
    },
  };
}
type Readers = ReturnType<typeof createReaders>;

/** Creates the event streams of a kind. */
export function createFeed<Row extends { id: string }>(deps: FeedDeps, kind: FollowedKind<Row>) {
  const { pool, updates, logger } = deps;
  const readers = createReaders(logger, kind.event);
  let timer: NodeJS.Timeout | undefined;
  let ticks = 0;

  function tick(): void {
    ticks += 1;
    const current = readers.list();
    if (current.length === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    if (ticks % keepaliveTicks === 0)
      for (const { events } of current) events.write(': keepalive\n\n');
    if (ticks % keyCheckTicks === 0) {
      listInvalid(pool, current).then(
        (invalid) => invalid.forEach(readers.disconnect),
        // Without the check, no stream can be trusted.
        (error: unknown) => readers.interrupt(error, current),
      );
    }
    for (const organizationId of readers.topics.keys())
      void withCorrelation({ organizationId }, () => sendChanges(kind, readers, organizationId));
    for (const reader of current)
      if (reader.events.writableLength > unreadBytesMax) readers.disconnect(reader);
  }

  updates.watch((change) => {
    if (change !== 'interrupted') {
      readers.topics.get(change.organizationId)?.changedIds.add(change.id);
      return;
    }
    // A followed execution is read at every tick, but the start of another one may have been missed.
    for (const reader of readers.list())
      if (reader.id === null || updates.isDraining) readers.disconnect(reader);
  });

  return {
    /**
     * Writes executions to the stream of a reader until the stream is closed or the reader's only
     * execution has ended: first the current ones, then each that changes. Resolves when the current
     * ones are written.
     */
    async follow(reader: Reader, listCurrent: () => Promise<readonly Row[]>): Promise<void> {
      const { fingerprints } = readers.add(reader);
      timer ??= withoutCorrelation(() => setInterval(tick, tickMs));
      try {
        for (const row of await listCurrent()) {
          await sendTo([reader], { kind, readers, row });
          if (!kind.isEnded(row) && !fingerprints.has(row.id))
            fingerprints.set(row.id, kind.fingerprint(row));
        }
      } catch {
        readers.disconnect(reader);
      }
    },
  };
}

export type Feed<Row extends { id: string }> = ReturnType<typeof createFeed<Row>>;

/** Sends the changed executions of an organization, unless they are still being read. */
async function sendChanges<Row extends { id: string }>(
  kind: FollowedKind<Row>,
  readers: Readers,
  organizationId: string,
): Promise<void> {
  const topic = readers.topics.get(organizationId);
  if (!topic || topic.isReading) return;
  topic.isReading = true;
  try {
    const ids = listIdsToRead(topic);
    const rows = ids.length === 0 ? [] : await kind.readMany(organizationId, ids);
    for (const row of rows) {
      const fingerprint = kind.fingerprint(row);
      if (topic.fingerprints.get(row.id) !== fingerprint)
        await sendTo(topic.readers, { kind, readers, row });
      if (kind.isEnded(row)) topic.fingerprints.delete(row.id);
      else topic.fingerprints.set(row.id, fingerprint);
    }
  } catch (error) {
    readers.interrupt(error, topic.readers);
  } finally {
    topic.isReading = false;
  }
}

/**
 * Sends an execution to those readers that receive it, as the same bytes. Ends the streams of readers
 * that receive only this one if it has ended.
 */
async function sendTo<Row extends { id: string }>(
  receivers: Iterable<Reader>,
  { kind, readers, row }: { kind: FollowedKind<Row>; readers: Readers; row: Row },
): Promise<void> {
  const event = Buffer.from(formatEvent(await kind.show(row), kind.event));
  for (const reader of receivers) {
    if (reader.id !== null && reader.id !== row.id) continue;
    if (reader.token && reader.token.endUser !== kind.endUserOf?.(row)) continue;
    // The stream may have ended while the execution was rendered.
    if (!reader.events.writableEnded) reader.events.write(event);
    if (reader.id !== null && kind.isEnded(row)) readers.disconnect(reader);
  }
}

/** Takes the ids of the changed and the open executions that have readers, at most as many as one query reads. */
function listIdsToRead({ readers, changedIds, fingerprints }: Topic): string[] {
  const readerIds = new Set([...readers].map(({ id }) => id));
  const hasReader = (id: string): boolean => readerIds.has(null) || readerIds.has(id);
  for (const id of fingerprints.keys()) if (!hasReader(id)) fingerprints.delete(id);
  const ids = [...new Set([...changedIds, ...fingerprints.keys()])].filter(hasReader);
  changedIds.clear();
  const idsToRead = ids.splice(0, rowsPerReadMax);
  // The remaining ones are read at the next tick.
  for (const id of ids) changedIds.add(id);
  return idsToRead;
}

const idRow = z.object({ id: z.string() });

/**
 * Lists the readers whose key or browser token was revoked or has expired, whose organization is suspended, or whose
 * console session has ended.
 */
export async function listInvalid<Reading extends Access>(
  pool: DatabasePool,
  readers: readonly Reading[],
): Promise<Reading[]> {
  const listAccessIds = ({ keyId, sessionId, token }: Access): string[] => [
    keyId,
    ...(sessionId === undefined ? [] : [sessionId]),
    ...(token ? [token.tokenId] : []),
  ];
  const ids = sql.array([...new Set(readers.flatMap(listAccessIds))], 'text');
  const live = new Set(
    await pool.anyFirst(sql.type(idRow)`
      SELECT k.id FROM api_key k JOIN organization o ON o.id = k.organization_id
      WHERE k.id = ANY(${ids}) AND k.revoked_at IS NULL AND o.status = 'active'
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
      UNION ALL SELECT id FROM browser_token
      WHERE id = ANY(${ids}) AND revoked_at IS NULL AND expires_at > clock_timestamp()
      UNION ALL SELECT id FROM console_session
      WHERE id = ANY(${ids}) AND expires_at > clock_timestamp()`),
  );
  return readers.filter((reader) => !listAccessIds(reader).every((id) => live.has(id)));
}
