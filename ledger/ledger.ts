/**
 * The ledger: reserve → charge | release, refunds and grants. Postgres decides each move under the
 * lock of the organization's account. A move is idempotent by its id, and shares its round trip
 * with other moves of the same moment (group commit; design §5).
 */
import { z } from 'zod';
import { sql } from 'slonik';
import { type ErrorCode, assert } from '../domain/errors.ts';
import { jsonOf, type Json, type JsonObject } from '../domain/json.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { CallOutputs, StoredArtifact } from '../jobs/job-plan.ts';
import {
  balance,
  insufficientCredits,
  reserveVerdict,
  settleVerdict,
  type ReserveVerdict,
  type SettleVerdict,
} from '../jobs/ledger-verdicts.ts';
import { createBatcher } from '../platform/batch.ts';

/** Reservation of credits. Its `job` is written in the same transaction. */
export interface Reserve {
  organizationId: string;
  /** Id of the job or chat; a second reservation with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /**
   * Time after which the sweeper checks whether a workflow still owns the reservation, in
   * milliseconds.
   */
  ttlMs: number;
  job?: {
    keyId: string;
    type: string;
    model: string | null;
    provider: string;
    requestId: string;
    deadlineAt: string;
    request: JsonObject;
    /** Plan without its request; absent if no workflow runs the job. */
    plan?: Json;
    metadata?: Record<string, string>;
  };
}

/** Settlement of a reservation. */
export interface Settle {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  /** Micro-credits to charge, at most the reserved amount; the rest is released. */
  amountMicro: number;
  reason: string;
  job?: {
    status: 'completed' | 'failed' | 'canceled';
    outputs: CallOutputs[] | null;
    error: { code: ErrorCode; message: string } | null;
    artifacts: StoredArtifact[];
  };
}

/** Refund of credits that a reservation was charged. */
interface Refund {
  organizationId: string;
  /** Id of the reservation. */
  id: string;
  /** Idempotency id of this refund among those of the reservation. */
  refundId: string;
  /** Micro-credits to give back; absent: all that are not refunded yet. */
  amountMicro?: number | undefined;
  actor: string;
  reason: string;
}

/** Schema of a refund's result; amounts in micro-credits. */
const refundVerdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('refunded'),
    repeated: z.boolean(),
    /** Amount of this refund. */
    amount: z.number(),
    /** Sum of all refunds of the reservation. */
    refunded: z.number(),
    balance,
  }),
  z.object({
    /** Refusal because less than the amount was charged and is not refunded yet. */
    verdict: z.literal('not_refundable'),
    state: z.enum(['reserved', 'charged', 'released']),
    charged: z.number(),
    refunded: z.number(),
  }),
  z.object({ verdict: z.literal('mismatch') }),
]);
/** Result of a refund. */
export type RefundVerdict = z.infer<typeof refundVerdict>;

/** Grant of credits; a negative amount takes unreserved credits back. */
interface Grant {
  organizationId: string;
  /** Idempotency id of this grant. */
  id: string;
  amountMicro: number;
  actor: string;
  reason: string;
}

/** Schema of a grant's result. */
const grantVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.enum(['granted', 'mismatch']), repeated: z.boolean(), balance }),
  insufficientCredits,
  z.object({ verdict: z.literal('no_account') }),
]);
/** Result of a grant. */
type GrantVerdict = z.infer<typeof grantVerdict>;

/** Makes the ledger over a pool; `metrics` are absent in tools. */
export function createLedger(pool: DatabasePool, metrics?: Metrics) {
  const move = createLedgerMoves(pool, { name: 'ledger', metrics });
  return {
    /**
     * Reserves credits.
     * @throws AssertionError if the organization has no account or the id has another price
     */
    reserve: async ({ amountMicro, ...reserve }: Reserve): Promise<ReserveVerdict> => {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a price is whole');
      return move({ verb: 'reserve', amount: amountMicro, ...reserve }, reserveVerdict);
    },
    /** Charges or releases. @throws AssertionError if more is charged than was reserved */
    settle: async ({ amountMicro, job, ...settle }: Settle): Promise<SettleVerdict> => {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      const moved = { verb: 'settle', amount: amountMicro, ...settle };
      return move(job ? { ...moved, job: jobOf(job) } : moved, settleVerdict);
    },
    /** Gives credits back. @throws AssertionError if there is no such reservation */
    refund: ({ amountMicro, ...refund }: Refund): Promise<RefundVerdict> =>
      move({ verb: 'refund', amount: amountMicro ?? null, ...refund }, refundVerdict),
    grant: ({ amountMicro, ...grant }: Grant): Promise<GrantVerdict> =>
      move({ verb: 'grant', amount: amountMicro, ...grant }, grantVerdict),
  };
}
/** Ledger of Studio. */
export type Ledger = ReturnType<typeof createLedger>;

function jobOf({ status, outputs, error, artifacts }: NonNullable<Settle['job']>): JsonObject {
  return {
    status,
    outputs: jsonOf(outputs),
    error,
    artifacts: artifacts.map((artifact) => ({
      storage_key: artifact.storageKey,
      content_type: artifact.contentType,
      size_bytes: artifact.sizeBytes,
      sha256: artifact.sha256,
    })),
  };
}

/**
 * Makes one move, `{verb, organizationId, id, …}`.
 * @throws AssertionError for a verdict outside the schema, because the move was invalid
 */
type LedgerMove = <Verdict>(move: JsonObject, verdicts: z.ZodType<Verdict>) => Promise<Verdict>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/**
 * Time for which a batch waits for the locked account of one of its organizations, in milliseconds.
 */
const lockTimeoutMs = 50;

/** Makes moves over a pool; `name` labels their batches in the metrics. */
export function createLedgerMoves(
  pool: DatabasePool,
  observed: { name: string; metrics: Metrics | undefined },
): LedgerMove {
  const apply = createBatcher<JsonObject, z.infer<typeof answer>>({
    ...observed,
    sizeMax: 200,
    // One batch at a time, because moves of one organization would only wait for each other's lock.
    parallelMax: 1,
    groupOf: ({ organizationId }) => (typeof organizationId === 'string' ? organizationId : ''),
    run: (moves) =>
      pool.oneFirst(
        sql.type(row)`SELECT ledger_apply(${sql.jsonb(moves)}, ${lockTimeoutMs}) AS answers`,
      ),
  });
  return async (move, verdicts) => {
    const answered = await apply(move);
    const parsed = verdicts.safeParse(answered);
    assert(parsed.success, `the ledger answers ${answered.verdict}`);
    return parsed.data;
  };
}

/** Schema of an entry; amounts in micro-credits. */
const ledgerEntry = z.object({
  sequence: z.number(),
  kind: z.enum(['grant', 'reserve', 'charge', 'release', 'refund']),
  reservationId: z.string().nullable(),
  postedChange: z.number(),
  reservedChange: z.number(),
  postedAfter: z.number(),
  reservedAfter: z.number(),
  actor: z.string().nullable(),
  reason: z.string().nullable(),
  createdAtMs: z.number(),
});
/** Entry of the ledger. */
export type LedgerEntry = z.infer<typeof ledgerEntry>;

/** Filter and page of a list of entries. */
interface EntryListing {
  kind: LedgerEntry['kind'] | undefined;
  /** Sequence of the last entry of the page before. */
  before: number | undefined;
  limit: number;
}

/** Schema of an open reservation. */
const openReservation = z.object({
  id: z.string(),
  organizationId: z.string(),
  kind: z.enum(['studio', 'chat']),
  amount: z.number(),
  ageSeconds: z.number(),
  createdAtMs: z.number(),
  /** Time at which the sweeper next checks for an owner. */
  expiresAtMs: z.number(),
  /** Time at which the sweeper first found none. */
  ownerMissingAtMs: z.number().nullable(),
});
/** Reservation that is not settled. */
export type OpenReservation = z.infer<typeof openReservation>;

const entryColumns = sql.fragment`sequence, kind, reservation_id AS "reservationId",
  posted_change AS "postedChange", reserved_change AS "reservedChange",
  posted_after AS "postedAfter", reserved_after AS "reservedAfter", actor, reason,
  created_at AS "createdAtMs"`;

/** Makes the reads of the ledger. */
export function createLedgerReads(pool: DatabasePool) {
  return {
    /** Lists entries, newest first. */
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
    /** Lists the entries of a job or chat, oldest first. */
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
