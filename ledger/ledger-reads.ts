/** Reads ledger entries, open reservations and the last audit, for operators. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';

/** Schema of a ledger entry. */
export const ledgerEntry = z.object({
  sequence: z.int(),
  kind: z.enum(['grant', 'reserve', 'charge', 'release', 'refund']),
  reservationId: z.string().nullable(),
  postedChangeMicro: z.number(),
  reservedChangeMicro: z.number(),
  postedAfterMicro: z.number(),
  reservedAfterMicro: z.number(),
  actor: z.string().nullable(),
  reason: z.string().nullable(),
  /** Rows of the price book that set the price; null if the catalog did. */
  priceRows: z.array(z.string()).nullable(),
  createdAtMs: z.number(),
});
type LedgerEntry = z.infer<typeof ledgerEntry>;

const archivedRow = z.object({ organizationId: z.string() });

/**
 * Returns whether a job or chat of an organization was archived; of any organization, if
 * `organizationId` is null.
 */
export async function isArchived(
  connection: CommonQueryMethods,
  id: string,
  organizationId: string | null,
): Promise<boolean> {
  const owner = await connection.maybeOneFirst(sql.type(archivedRow)`
    SELECT organization_id AS "organizationId" FROM archived_id
    WHERE id = ${id.replace(/^[a-z]+_/, '')}::uuid`);
  return owner !== null && owner === (organizationId ?? owner);
}

interface EntryListing {
  kind: LedgerEntry['kind'] | undefined;
  /** Sequence number of the last entry on the previous page; undefined for the first page. */
  before: number | undefined;
  limit: number;
}

/** Schema of an open reservation. */
export const openReservation = z.object({
  id: z.string(),
  organizationId: z.string(),
  kind: z.enum(['studio', 'chat']),
  creditsMicro: z.number(),
  ageSeconds: z.number(),
  createdAtMs: z.number(),
  /** Time of the sweeper's next check whether the job's workflow or the chat's process runs. */
  expiresAtMs: z.number(),
  /** Time at which the sweeper first found the owner missing or overdue; null if it was running. */
  ownerMissingAtMs: z.number().nullable(),
});
type OpenReservation = z.infer<typeof openReservation>;

/** Schema of the last audit of a scope. */
export const lastAudit = z.object({
  scope: z.enum(['changes', 'all']),
  findings: z.int(),
  entries: z.int(),
  reservations: z.int(),
  finishedAtMs: z.number(),
});
export type LastAudit = z.infer<typeof lastAudit>;

/** Reads the last audit of each scope that has ended. */
export function readLastAudits(pool: DatabasePool): Promise<readonly LastAudit[]> {
  return pool.any(sql.type(lastAudit)`
    SELECT scope, findings, entries, reservations, finished_at AS "finishedAtMs"
    FROM last_audit WHERE finished_at IS NOT NULL ORDER BY scope`);
}

const entryColumns = sql.fragment`sequence, kind, reservation_id AS "reservationId",
  posted_change AS "postedChangeMicro", reserved_change AS "reservedChangeMicro",
  posted_after AS "postedAfterMicro", reserved_after AS "reservedAfterMicro", actor, reason,
  price_rows AS "priceRows", created_at AS "createdAtMs"`;

/** Creates the functions that read the ledger. */
export function createLedgerReads(pool: DatabasePool) {
  return {
    lastAudits: () => readLastAudits(pool),
    /** Lists the ledger entries of an organization, newest first. */
    entries: (
      organizationId: string,
      { kind, before, limit }: EntryListing,
    ): Promise<readonly LedgerEntry[]> =>
      pool.any(sql.type(ledgerEntry)`
        SELECT ${entryColumns} FROM ledger_entry
        WHERE organization_id = ${organizationId}
          AND (${kind ?? null}::text IS NULL OR kind = ${kind ?? null}::text)
          AND (${before ?? null}::bigint IS NULL OR sequence < ${before ?? null}::bigint)
        ORDER BY sequence DESC LIMIT ${limit}`),
    /** Lists the ledger entries of a job or chat, oldest first. */
    entriesOf: (reservationId: string): Promise<readonly LedgerEntry[]> =>
      pool.any(sql.type(ledgerEntry)`
        SELECT ${entryColumns} FROM ledger_entry
        WHERE organization_id = (SELECT organization_id FROM reservation WHERE id = ${reservationId})
          AND (idempotency_key IN (${`reserve:${reservationId}`}, ${`settle:${reservationId}`})
            OR kind = 'refund' AND reservation_id = ${reservationId})
        ORDER BY sequence`),
    /** Lists open reservations, oldest first. */
    openReservations({
      organizationId,
      limit,
    }: {
      organizationId: string | undefined;
      limit: number;
    }): Promise<readonly OpenReservation[]> {
      const owner = organizationId ?? null;
      return pool.any(sql.type(openReservation)`
        SELECT id, organization_id AS "organizationId", kind,
          amount AS "creditsMicro", extract(epoch FROM now() - created_at)::integer AS "ageSeconds",
          created_at AS "createdAtMs", expires_at AS "expiresAtMs",
          owner_missing_at AS "ownerMissingAtMs"
        FROM reservation
        WHERE state = 'reserved' AND (${owner}::text IS NULL OR organization_id = ${owner}::text)
        ORDER BY created_at, id LIMIT ${limit}`);
    },
  };
}
