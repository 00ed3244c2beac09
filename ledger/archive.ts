/**
 * Archives old ledger entries with their jobs and chats: writes them to the store, reads them back,
 * and only then removes their rows (archive.sql). Each segment is archived or not: a crash leaves at
 * most an object that the next run uses.
 */
import { createHash } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Storage } from '../storage/storage.ts';
import { findViolations } from './invariants.ts';
import { createUsageSums } from './usage-sums.ts';

export interface ArchiveSources {
  databaseUrl: string;
  pool: DatabasePool;
  storage: Pick<Storage, 'spoolPath' | 'put' | 'open'>;
}

interface ArchiveOptions {
  /** Archives entries from before this time, in Unix milliseconds. */
  beforeMs: number;
  /** Time in milliseconds after which no further segment begins; unlimited by default. */
  timeMs?: number;
  signal?: AbortSignal;
}

/** Numbers of archived segments and reservations. */
interface Archived {
  segments: number;
  reservations: number;
  /** False if the time ended before everything was archived. */
  complete: boolean;
}

/** Maximum number of ledger entries in a segment: their removal locks the account for its duration. */
const segmentEntries = 1000;
/** Pause after a segment, as a multiple of its duration, so that requests stay fast. */
const pauseShare = 1;
/** Number of attempts to archive a segment whose rows change meanwhile. */
const attemptsMax = 5;

/** Number of rows of a kind that one statement deletes. */
const deletedRowsMax = 100;

const deletedRow = z.object({ deleted: z.number() });
const idRow = z.object({ id: z.string() });
const bounds = z.object({ first: z.number(), last: z.number().nullable() });
const contentRow = z.object({ content: z.string() });
const doneRow = z.object({ done: z.boolean() });
/** Row of `archive_segment`, with the totals and the hash of the previous segment. */
const segmentRow = z.object({
  organizationId: z.string(),
  sequence: z.number(),
  firstSequence: z.number(),
  posted: z.number(),
  reserved: z.number(),
  reservations: z.number(),
  charged: z.number(),
  net: z.number(),
  storageKey: z.string(),
  sha256: z.string(),
  previousSha256: z.string().nullable(),
  postedBefore: z.number(),
  reservedBefore: z.number(),
});
type Segment = z.infer<typeof segmentRow>;

/**
 * Archives the entries from before a time of all accounts, with the reservations that ended in them.
 * Days are summed up and an audit runs first, because only entries that are summed up and that an
 * audit found right are archived. At the end, rows without money from before the time are deleted.
 * @throws Error if the store or the database fails; what was archived before stays archived
 */
export async function archive(
  { databaseUrl, pool, storage }: ArchiveSources,
  { beforeMs, timeMs = Infinity, signal }: ArchiveOptions,
): Promise<Archived> {
  const startedAt = performance.now();
  const sums = createUsageSums(pool);
  while ((await sums.closeDays(signal)) > 0);
  await findViolations(databaseUrl, { scope: 'changes', ...(signal && { signal }) });
  const archived = { segments: 0, reservations: 0, complete: true };
  const accounts = await pool.anyFirst(
    sql.type(idRow)`SELECT organization_id AS id FROM account ORDER BY 1`,
  );
  for (const accountId of accounts) {
    for (;;) {
      signal?.throwIfAborted();
      if (performance.now() - startedAt > timeMs) return { ...archived, complete: false };
      const begunAt = performance.now();
      const reservations = await archiveSegment({ pool, storage }, accountId, beforeMs);
      if (reservations === null) break;
      archived.segments += 1;
      archived.reservations += reservations;
      await delay((performance.now() - begunAt) * pauseShare, undefined, signal && { signal });
    }
  }
  await deleteEnded(pool, beforeMs);
  return archived;
}

/** Deletes rows without money from before a time (archive.sql). */
async function deleteEnded(pool: DatabasePool, beforeMs: number): Promise<void> {
  for (;;) {
    const deleted = await pool.oneFirst(sql.type(deletedRow)`
      SELECT delete_ended(timestamp_of_ms(${beforeMs}::bigint), ${deletedRowsMax}) AS deleted`);
    if (deleted === 0) return;
  }
}

/** Archives the next segment of an account. Returns the number of its reservations; null if there is none. */
async function archiveSegment(
  { pool, storage }: Pick<ArchiveSources, 'pool' | 'storage'>,
  accountId: string,
  beforeMs: number,
): Promise<number | null> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const { first, last } = await pool.one(sql.type(bounds)`
      SELECT * FROM next_archive_segment(${accountId}, timestamp_of_ms(${beforeMs}::bigint), ${segmentEntries})`);
    if (last === null) return null;
    const content = await pool.oneFirst(sql.type(contentRow)`
      SELECT archive_content(${accountId}, ${first}::bigint, ${last}::bigint) AS content`);
    const sha256 = hashOf(content);
    const key = `${accountId}/archive_${last}_${sha256.slice(0, 16)}.ndjson`;
    const path = await storage.spoolPath();
    try {
      await writeFile(path, content);
      await storage.put(key, path);
    } finally {
      await rm(path, { force: true });
    }
    const stored = await readObject(storage, key);
    if (stored === null || hashOf(stored) !== sha256) {
      throw new Error(`the store returned other bytes than were written to ${key}`);
    }
    const done = await pool.oneFirst(sql.type(doneRow)`
      SELECT archive_rows(${accountId}, ${first}::bigint, ${last}::bigint, ${key}, ${sha256}) AS done`);
    if (done) return parse(content).reservations.length;
  }
  throw new Error(`the rows of ${accountId} changed during each of ${attemptsMax} attempts`);
}

const hashOf = (content: string): string => createHash('sha256').update(content).digest('hex');

async function readObject(storage: Pick<Storage, 'open'>, key: string): Promise<string | null> {
  const object = await storage.open(key);
  return object && text(object.stream);
}

/** Cursor of a check: the last checked segment. */
export interface SegmentCursor {
  organizationId: string;
  sequence: number;
}

interface ArchiveCheck {
  segments: number;
  findings: { finding: string; subject: string }[];
  /** Cursor of the next call; null if all segments were checked. */
  next: SegmentCursor | null;
}

/**
 * Reads archived segments from the store and audits them, from the one behind a cursor on, for a
 * limited time.
 */
export async function checkArchive(
  { pool, storage }: Pick<ArchiveSources, 'pool' | 'storage'>,
  { after, timeMs = Infinity }: { after: SegmentCursor | null; timeMs?: number },
): Promise<ArchiveCheck> {
  const startedAt = performance.now();
  const checked: ArchiveCheck = { segments: 0, findings: [], next: after };
  while (performance.now() - startedAt < timeMs) {
    const segment = await readNextSegment(pool, checked.next);
    if (!segment) return { ...checked, next: null };
    const content = await readObject(storage, segment.storageKey);
    const found =
      content === null
        ? ['an archived segment is missing in the store']
        : hashOf(content) !== segment.sha256
          ? ['the hash of an archived segment is not the recorded one']
          : checkSegment(segment, content);
    checked.findings.push(...found.map((finding) => ({ finding, subject: segment.storageKey })));
    checked.segments += 1;
    checked.next = { organizationId: segment.organizationId, sequence: segment.sequence };
  }
  assert(checked.next, 'at least one segment was checked');
  return checked;
}

function readNextSegment(pool: DatabasePool, after: SegmentCursor | null): Promise<Segment | null> {
  const { organizationId, sequence } = after ?? { organizationId: '', sequence: 0 };
  return pool.maybeOne(sql.type(segmentRow)`
    SELECT s.organization_id AS "organizationId", s.sequence, s.first_sequence AS "firstSequence", s.posted, s.reserved,
      s.reservations, s.charged, s.net, s.storage_key AS "storageKey", s.sha256, p.sha256 AS "previousSha256",
      coalesce(p.posted, 0) AS "postedBefore", coalesce(p.reserved, 0) AS "reservedBefore"
    FROM archive_segment s
      LEFT JOIN archive_segment p ON p.organization_id = s.organization_id AND p.sequence = s.first_sequence - 1
    WHERE (s.organization_id, s.sequence) > (${organizationId}, ${sequence}::bigint)
    ORDER BY s.organization_id, s.sequence LIMIT 1`);
}

const line = z.object({
  table: z.enum([
    'segment',
    'ledger_entry',
    'reservation',
    'job',
    'provider_call',
    'artifact',
    'provider_notification',
    'webhook',
    'bulk',
    'bulk_item',
    'bulk_event',
  ]),
  row: z.unknown(),
});
type Line = z.infer<typeof line>;

const segmentStart = z.object({
  organization_id: z.string(),
  first_sequence: z.number(),
  sequence: z.number(),
  posted_before: z.number(),
  reserved_before: z.number(),
  previous_sha256: z.string().nullable(),
});
type SegmentStart = z.infer<typeof segmentStart>;

const entryRow = z.object({
  sequence: z.number(),
  kind: z.enum(['grant', 'reserve', 'charge', 'release', 'refund']),
  reservation_id: z.string().nullable(),
  posted_change: z.number(),
  reserved_change: z.number(),
  posted_after: z.number(),
  reserved_after: z.number(),
});
type Entry = z.infer<typeof entryRow>;

const reservationRow = z.object({
  id: z.string(),
  amount: z.number(),
  state: z.enum(['charged', 'released']),
  charged: z.number().nullable(),
  refunded: z.number().nullable(),
});
type Reservation = z.infer<typeof reservationRow>;

const jobRow = z.object({ id: z.string(), status: z.string() });

function parse(content: string) {
  const lines = content
    .split('\n')
    .slice(0, -1)
    .map((each) => line.parse(JSON.parse(each)));
  const rowsOf = <Schema extends z.ZodType>(table: Line['table'], schema: Schema) =>
    lines.filter((one) => one.table === table).map(({ row }) => schema.parse(row));
  return {
    starts: rowsOf('segment', segmentStart),
    entries: rowsOf('ledger_entry', entryRow),
    reservations: rowsOf('reservation', reservationRow),
    jobs: rowsOf('job', jobRow),
  };
}

/** Returns the names of the invariants that a segment violates. */
function checkSegment(segment: Segment, content: string): string[] {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(content);
  } catch {
    return ['an archived segment has a line of an unknown format'];
  }
  const { starts, entries, reservations, jobs } = parsed;
  const entriesOf = Map.groupBy(entries, ({ reservation_id: id }) => id);
  const stateOf = new Map(reservations.map(({ id, state }) => [id, state]));
  const checks: [string, boolean][] = [
    [
      'the start of an archived segment is not the end of the previous one',
      followsPrevious(segment, starts),
    ],
    [
      'the totals of an archived ledger entry do not follow from the previous entry',
      isChain(segment, entries),
    ],
    [
      'the sums of an archived segment differ from its reservations',
      hasSums(segment, reservations),
    ],
    [
      'an archived reservation differs from its entries',
      reservations.every((one) => isSettled(one, entriesOf.get(one.id) ?? [])),
    ],
    [
      'the status of an archived job contradicts its reservation',
      jobs.every(
        ({ id, status }) => stateOf.get(id) === (status === 'completed' ? 'charged' : 'released'),
      ),
    ],
  ];
  return checks.flatMap(([finding, isRight]) => (isRight ? [] : [finding]));
}

function followsPrevious(segment: Segment, [first, ...others]: SegmentStart[]): boolean {
  return (
    others.length === 0 &&
    first?.organization_id === segment.organizationId &&
    first.first_sequence === segment.firstSequence &&
    first.sequence === segment.sequence &&
    first.posted_before === segment.postedBefore &&
    first.reserved_before === segment.reservedBefore &&
    first.previous_sha256 === segment.previousSha256 &&
    (first.first_sequence === 1 || first.previous_sha256 !== null)
  );
}

function isChain(segment: Segment, entries: Entry[]): boolean {
  let sequence = segment.firstSequence - 1;
  let posted = segment.postedBefore;
  let reserved = segment.reservedBefore;
  for (const entry of entries) {
    sequence += 1;
    posted += entry.posted_change;
    reserved += entry.reserved_change;
    if (entry.sequence !== sequence) return false;
    if (entry.posted_after !== posted || entry.reserved_after !== reserved) return false;
  }
  return (
    sequence === segment.sequence && posted === segment.posted && reserved === segment.reserved
  );
}

function hasSums(segment: Segment, reservations: Reservation[]): boolean {
  const sumOf = (value: (one: Reservation) => number): number =>
    reservations.reduce((total, one) => total + value(one), 0);
  return (
    reservations.length === segment.reservations &&
    sumOf(({ charged }) => charged ?? 0) === segment.charged &&
    sumOf(({ charged, refunded }) => (charged ?? 0) - (refunded ?? 0)) === segment.net
  );
}

/** Returns whether the entries of a reservation in this segment agree with it. Earlier ones are in earlier segments. */
function isSettled(reservation: Reservation, entries: Entry[]): boolean {
  const isRight = (entry: Entry): boolean => {
    if (entry.kind === 'reserve') return entry.reserved_change === reservation.amount;
    if (entry.kind === 'refund') return entry.posted_change <= (reservation.refunded ?? 0);
    return (
      (entry.kind === 'charge') === (reservation.state === 'charged') &&
      -entry.posted_change === (reservation.charged ?? 0) &&
      -entry.reserved_change === reservation.amount
    );
  };
  return entries.length > 0 && entries.every(isRight);
}
