/**
 * Timer of event streams: while a stream has a reader, it sends changes once a second, keeps idle streams
 * open, and disconnects readers that have lost access or do not read.
 */
import type { PassThrough } from 'node:stream';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { withoutCorrelation } from '../../platform/logger.ts';

/** Reader of an event stream. */
export interface StreamReader {
  keyId: string;
  /** Id of the reader's console session. Undefined if the reader authenticated with a key. */
  sessionId: string | undefined;
  events: PassThrough;
}

interface StreamTimerOptions<Reader> {
  pool: DatabasePool;
  listReaders: () => readonly Reader[];
  /** Ends the stream of a reader and forgets the reader. */
  disconnect: (reader: Reader) => void;
  /** Handles a failed check of keys, after which no stream can be trusted. */
  interrupt: (error: unknown, readers: readonly Reader[]) => void;
  sendChanges: () => void;
}

/** Interval at which changes are sent, in milliseconds. */
export const tickMs = 1000;
/** Number of ticks between checks of the readers' keys. */
const keyCheckTicks = 5;
/** Number of ticks between keepalive comments. */
const keepaliveTicks = 15;
/** Maximum number of bytes that a reader has not read; with more, it is disconnected. */
const unreadBytesMax = 1024 * 1024;

/** Creates a timer, and returns the function that starts it unless it runs. */
export function createStreamTimer<Reader extends StreamReader>(
  options: StreamTimerOptions<Reader>,
): () => void {
  const { pool, listReaders, disconnect, interrupt, sendChanges } = options;
  let timer: NodeJS.Timeout | undefined;
  let ticks = 0;
  function tick(): void {
    ticks += 1;
    const readers = listReaders();
    if (readers.length === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    if (ticks % keepaliveTicks === 0)
      for (const { events } of readers) events.write(': keepalive\n\n');
    if (ticks % keyCheckTicks === 0)
      disconnectInvalid(readers).catch((error: unknown) => interrupt(error, readers));
    sendChanges();
    for (const reader of readers)
      if (reader.events.writableLength > unreadBytesMax) disconnect(reader);
  }
  async function disconnectInvalid(readers: readonly Reader[]): Promise<void> {
    for (const reader of await listInvalid(pool, readers)) disconnect(reader);
  }
  return () => {
    timer ??= withoutCorrelation(() => setInterval(tick, tickMs));
  };
}

const idRow = z.object({ id: z.string() });

/**
 * Lists the readers whose key was revoked or has expired, whose organization is suspended, or whose
 * console session has ended.
 */
async function listInvalid<Reader extends StreamReader>(
  pool: DatabasePool,
  readers: readonly Reader[],
): Promise<Reader[]> {
  const listAccessIds = ({ keyId, sessionId }: Reader): string[] =>
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
  return readers.filter((reader) => !listAccessIds(reader).every((id) => live.has(id)));
}
