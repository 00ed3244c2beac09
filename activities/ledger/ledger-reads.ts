/** What operators read of the ledger: entries of an organization, reservations that are open. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

/** One entry; amounts in micro-credits. */
const ledgerEntry = z.object({
  sequence: z.number(),
  kind: z.enum(['grant', 'reserve', 'charge', 'release']),
  reservationId: z.string().nullable(),
  postedChange: z.number(),
  reservedChange: z.number(),
  postedAfter: z.number(),
  reservedAfter: z.number(),
  actor: z.string().nullable(),
  reason: z.string().nullable(),
  createdAtMs: z.number(),
});
/** See `ledgerEntry`. */
export type LedgerEntry = z.infer<typeof ledgerEntry>;

/** A reservation that nobody has settled yet. */
const openReservation = z.object({
  id: z.string(),
  organizationId: z.string(),
  kind: z.enum(['studio', 'chat']),
  amount: z.number(),
  ageSeconds: z.number(),
  createdAtMs: z.number(),
  /** When the sweeper next asks for its owner. */
  expiresAtMs: z.number(),
  /** When the sweeper first found none. */
  ownerMissingAtMs: z.number().nullable(),
});
/** See `openReservation`. */
export type OpenReservation = z.infer<typeof openReservation>;

/** Reads over a pool. */
export interface LedgerReads {
  /** Newest first; `before` is the sequence of the last entry seen. */
  entries: (
    organizationId: string,
    page: { before: number | undefined; limit: number },
  ) => Promise<readonly LedgerEntry[]>;
  /** Of a job or chat, oldest first. */
  entriesOf: (reservationId: string) => Promise<readonly LedgerEntry[]>;
  /** Oldest first: what hangs longest stands at the top. */
  openReservations: (page: {
    organizationId: string | undefined;
    limit: number;
  }) => Promise<readonly OpenReservation[]>;
}

const entryColumns = sql.fragment`sequence, kind, reservation_id AS "reservationId",
  posted_change AS "postedChange", reserved_change AS "reservedChange",
  posted_after AS "postedAfter", reserved_after AS "reservedAfter", actor, reason,
  created_at AS "createdAtMs"`;

/** See `LedgerReads`. */
export function createLedgerReads(pool: DatabasePool): LedgerReads {
  return {
    entries: (organizationId, { before, limit }) =>
      pool.any(sql.type(ledgerEntry)`
        SELECT ${entryColumns} FROM ledger_entry
        WHERE organization_id = ${organizationId}
          AND (${before ?? null}::bigint IS NULL OR sequence < ${before ?? null}::bigint)
        ORDER BY sequence DESC LIMIT ${limit}`),
    entriesOf: (reservationId) =>
      pool.any(sql.type(ledgerEntry)`
        SELECT ${entryColumns} FROM ledger_entry
        WHERE reservation_id = ${reservationId} ORDER BY sequence`),
    openReservations({ organizationId, limit }) {
      const of = organizationId ?? null;
      return pool.any(sql.type(openReservation)`
        SELECT id, organization_id AS "organizationId", kind, amount,
          extract(epoch FROM now() - created_at)::integer AS "ageSeconds",
          created_at AS "createdAtMs", expires_at AS "expiresAtMs",
          owner_missing_at AS "ownerMissingAtMs"
        FROM reservation
        WHERE state = 'reserved' AND (${of}::text IS NULL OR organization_id = ${of}::text)
        ORDER BY created_at, id LIMIT ${limit}`);
    },
  };
}
