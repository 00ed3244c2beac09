/**
 * The ledger: reserve → charge | release, refunds and grants. Postgres decides each move under the
 * lock of the organization's account. A move is idempotent by its id, and shares its round trip
 * with other moves of the same moment (group commit; design §5).
 */
import { z } from 'zod';
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
import { createLedgerMoves } from './ledger-moves.ts';

/** Reservation of credits. Its `job` is written in the same transaction. */
export interface Reserve {
  organizationId: string;
  /** Id of the job or chat; a second reservation with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /** Time after which the sweeper looks for the workflow of the reservation, in ms. */
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
type GrantVerdict = z.infer<typeof grantVerdict>;

/** Makes the ledger over a pool; `metrics` are absent in tools. */
export function createLedger(pool: DatabasePool, metrics?: Metrics) {
  const move = createLedgerMoves(pool, { name: 'ledger', metrics });
  return {
    /** Reserves credits. @throws AssertionError without an account, or for another price */
    reserve: async ({ amountMicro, ...reserve }: Reserve): Promise<ReserveVerdict> => {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a price is whole');
      return move({ verb: 'reserve', amount: amountMicro, ...reserve }, reserveVerdict);
    },
    /** Charges or releases. @throws AssertionError if more is charged than was reserved */
    settle: async ({ amountMicro, job, ...settle }: Settle): Promise<SettleVerdict> => {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      const settlement = { verb: 'settle', amount: amountMicro, ...settle };
      return move(job ? { ...settlement, job: jsonOf(job) } : settlement, settleVerdict);
    },
    /** Gives credits back. @throws AssertionError if there is no such reservation */
    refund: ({ amountMicro, ...refund }: Refund): Promise<RefundVerdict> =>
      move({ verb: 'refund', amount: amountMicro ?? null, ...refund }, refundVerdict),
    grant: ({ amountMicro, ...grant }: Grant): Promise<GrantVerdict> =>
      move({ verb: 'grant', amount: amountMicro, ...grant }, grantVerdict),
  };
}
export type Ledger = ReturnType<typeof createLedger>;
