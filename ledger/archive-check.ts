/** Audits the content of an archived segment (archive.sql). */
import { z } from 'zod';

/** Row of `archive_segment`, with the totals and the hash of the previous segment. */
export interface Segment {
  organizationId: string;
  sequence: number;
  firstSequence: number;
  posted: number;
  reserved: number;
  reservations: number;
  charged: number;
  net: number;
  storageKey: string;
  sha256: string;
  previousSha256: string | null;
  postedBefore: number;
  reservedBefore: number;
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
    .map((text) => line.parse(JSON.parse(text)));
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
export function checkSegment(segment: Segment, content: string): string[] {
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
