/**
 * The credit ledger: reserve → charge | release, refunds and grants. Postgres decides each move
 * while it holds the lock of the organization's account. Each move is idempotent by its id. Moves
 * that are requested at the same time share one round trip and one commit (group commit).
 */
import { z } from 'zod';
import { type ErrorCode, assert } from '../domain/errors.ts';
import { asJson, type Json, type JsonObject } from '../domain/json.ts';
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

/** Reservation of credits. The row of its `job` is written in the same transaction. */
export interface Reservation {
  organizationId: string;
  /** Id of the job or chat. A second reservation with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /** Time until the sweeper checks whether the workflow of the job still runs, in milliseconds. */
  ttlMs: number;
  job?: {
    keyId: string;
    type: string;
    model: string | null;
    provider: string;
    requestId: string;
    deadlineAt: string;
    request: JsonObject;
    /** Job plan without its request. Missing if no workflow runs the job. */
    plan?: Json;
    metadata?: Record<string, string>;
  };
}

/** Settlement of a reservation. */
export interface Settlement {
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

/** Refund of charged credits. */
interface Refund {
  organizationId: string;
  id: string;
  /** Idempotency id of this refund; unique within the reservation. */
  refundId: string;
  /** Micro-credits to refund. Defaults to everything charged and not yet refunded. */
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
    /** The amount exceeds what remains refundable. */
    verdict: z.literal('not_refundable'),
    state: z.enum(['reserved', 'charged', 'released']),
    charged: z.number(),
    refunded: z.number(),
  }),
  z.object({ verdict: z.literal('mismatch') }),
]);
export type RefundVerdict = z.infer<typeof refundVerdict>;

/** Grant of credits. A negative amount removes unreserved credits. */
interface Grant {
  organizationId: string;
  /** Idempotency id of the grant. */
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

/** Creates the ledger. Command-line tools pass no `metrics`. */
export function createLedger(pool: DatabasePool, metrics?: Metrics) {
  const move = createLedgerMoves(pool, { name: 'ledger', metrics });
  return {
    /**
     * Reserves credits.
     * @throws AssertionError if the organization has no account, or if the id was already reserved
     * with a different amount
     */
    reserve: async ({ amountMicro, ...reservation }: Reservation): Promise<ReserveVerdict> => {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the price must be a non-negative integer',
      );
      return move({ verb: 'reserve', amount: amountMicro, ...reservation }, reserveVerdict);
    },
    /**
     * Charges or releases reserved credits.
     * @throws AssertionError if the charge is above the reservation
     */
    settle: async ({ amountMicro, job, ...settle }: Settlement): Promise<SettleVerdict> => {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the charge must be a non-negative integer',
      );
      const settlement = { verb: 'settle', amount: amountMicro, ...settle };
      return move(job ? { ...settlement, job: asJson(job) } : settlement, settleVerdict);
    },
    /** Refunds charged credits. @throws AssertionError if the reservation does not exist */
    refund: ({ amountMicro, ...refund }: Refund): Promise<RefundVerdict> =>
      move({ verb: 'refund', amount: amountMicro ?? null, ...refund }, refundVerdict),
    grant: ({ amountMicro, ...grant }: Grant): Promise<GrantVerdict> =>
      move({ verb: 'grant', amount: amountMicro, ...grant }, grantVerdict),
  };
}
export type Ledger = ReturnType<typeof createLedger>;
