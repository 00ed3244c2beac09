/**
 * The ledger: reserve → charge | release, and grants. Every move is decided by Postgres under the lock
 * of the organization's account, is idempotent by its id, and costs one round trip that it shares with
 * the moves made at the same time (group commit; design §5).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import type { ErrorCode } from '../../domain/errors.ts';
import { jsonOf, type JsonObject } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { CallOutputs, JobPlan, StoredArtifact } from '../../jobs/job-plan.ts';
import {
  balance,
  insufficientCredits,
  refusal,
  reserveVerdict,
  settleVerdict,
  type Refusal,
  type ReserveVerdict,
  type SettleVerdict,
} from '../../jobs/ledger-verdicts.ts';
import { createLedgerMoves } from './ledger-moves.ts';

/** What a reservation is for. A `job` is written in the same transaction. */
export interface Reserve {
  organizationId: string;
  /** The job id: a second reserve with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /** After this the sweeper looks whether anybody still owns the reservation. */
  ttlMs: number;
  job?: {
    keyId: string;
    type: string;
    model: string | null;
    provider: string;
    requestId: string;
    deadlineAt: string;
    request: JsonObject;
    metadata?: Record<string, string>;
  };
}

/** How a reservation ends. */
export interface Settle {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  /** Micro-credits to charge, at most what was reserved; the rest goes back. */
  amountMicro: number;
  reason: string;
  job?: {
    status: 'completed' | 'failed' | 'canceled';
    outputs: CallOutputs[] | null;
    error: { code: ErrorCode; message: string } | null;
    artifacts: StoredArtifact[];
  };
}

/** Credits added to an organization (negative: unreserved credits taken back). */
export interface Grant {
  organizationId: string;
  /** Idempotency id of this grant. */
  id: string;
  amountMicro: number;
  actor: string;
  reason: string;
}

/** The answer to a grant. */
const grantVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.enum(['granted', 'mismatch']), repeated: z.boolean(), balance }),
  insufficientCredits,
  z.object({ verdict: z.literal('no_account') }),
]);
/** See `grantVerdict`. */
export type GrantVerdict = z.infer<typeof grantVerdict>;

const refusalRow = z.object({ refusal: refusal.nullable() });

/** Moves of money. */
export interface Ledger {
  /** The refusal that a job's reservation would meet now; null: none. Nothing is reserved. */
  refusalOf: (
    plan: Pick<JobPlan, 'organizationId' | 'keyId' | 'jobId' | 'priceMicro'>,
  ) => Promise<Refusal | null>;
  /** @throws AssertionError when the organization has no account or the id stands for another price. */
  reserve: (reserve: Reserve) => Promise<ReserveVerdict>;
  /** @throws AssertionError when more is charged than was reserved. */
  settle: (settle: Settle) => Promise<SettleVerdict>;
  grant: (grant: Grant) => Promise<GrantVerdict>;
}

/** The ledger over a pool. */
export function createLedger(pool: DatabasePool): Ledger {
  const move = createLedgerMoves(pool, 'ledger');
  return {
    refusalOf: ({ organizationId, keyId, jobId: id, priceMicro: amount }) =>
      pool.oneFirst(
        sql.type(refusalRow)`SELECT ledger_refusal(${sql.jsonb({
          organizationId,
          keyId,
          id,
          amount,
          kind: 'studio',
        })}) AS refusal`,
      ),
    reserve: async (reserve) => move(reserveMove(reserve), reserveVerdict),
    settle: async (settle) => move(settleMove(settle), settleVerdict),
    grant: ({ amountMicro, ...grant }) =>
      move({ verb: 'grant', amount: amountMicro, ...grant }, grantVerdict),
  };
}

function reserveMove(reserve: Reserve): JsonObject {
  assert(Number.isSafeInteger(reserve.amountMicro) && reserve.amountMicro >= 0, 'a price is whole');
  return {
    verb: 'reserve',
    organizationId: reserve.organizationId,
    id: reserve.id,
    kind: reserve.kind,
    amount: reserve.amountMicro,
    ttlMs: reserve.ttlMs,
    ...(reserve.job && { job: reserve.job }),
  };
}

function settleMove(settle: Settle): JsonObject {
  assert(Number.isSafeInteger(settle.amountMicro) && settle.amountMicro >= 0, 'a charge is whole');
  return {
    verb: 'settle',
    organizationId: settle.organizationId,
    id: settle.id,
    to: settle.to,
    amount: settle.amountMicro,
    reason: settle.reason,
    ...(settle.job && {
      job: {
        status: settle.job.status,
        outputs: jsonOf(settle.job.outputs),
        error: settle.job.error,
        artifacts: settle.job.artifacts.map((artifact) => ({
          storage_key: artifact.storageKey,
          content_type: artifact.contentType,
          size_bytes: artifact.sizeBytes,
          sha256: artifact.sha256,
        })),
      },
    }),
  };
}
