/**
 * The credit ledger: reserve → charge | release, refunds and grants. Each is a ledger operation,
 * idempotent by its id, which Postgres decides while the account of the organization is locked.
 */
import { z } from 'zod';
import { type ErrorCode, assert } from '../domain/errors.ts';
import { asJson, type Json, type JsonObject } from '../domain/json.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { CallOutputs, StoredArtifact } from '../domain/job-plan.ts';
import {
  balance,
  insufficientCredits,
  reserveResult,
  settleResult,
  type ReserveResult,
  type SettleResult,
} from '../domain/credits.ts';
import { createApplyOperation } from './ledger-batches.ts';

/** Reservation of credits. The row of its `job` is inserted in the same transaction. */
export interface Reservation {
  organizationId: string;
  /** Id of the job or chat. A second reservation with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /** Milliseconds until the sweeper checks whether the workflow still runs. */
  ttlMs: number;
  job?: {
    keyId: string;
    type: string;
    model: string | null;
    provider: string;
    requestId: string;
    deadlineAt: string;
    request: JsonObject;
    /** Job plan without its request. Absent if no workflow runs the job. */
    plan?: Json;
    metadata?: Record<string, string>;
  };
}

/** Settlement of a reservation. */
export interface Settlement {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  /** Micro-credits to charge, in full; what was reserved beyond them is released. */
  amountMicro: number;
  reason: string;
  job?: {
    status: 'completed' | 'failed' | 'canceled';
    outputs: CallOutputs[] | null;
    error: { code: ErrorCode; message: string } | null;
    artifacts: StoredArtifact[];
  };
}

/** Job that failed or was canceled. */
export interface UndeliveredJob {
  jobId: string;
  organizationId: string;
  status: 'failed' | 'canceled';
  error: { code: ErrorCode; message: string };
}

/** Builds the settlement that releases the credits of a job and ends the job. */
export function buildRelease({ jobId, organizationId, status, error }: UndeliveredJob): Settlement {
  return {
    organizationId,
    id: jobId,
    to: 'released',
    amountMicro: 0,
    reason: error.code,
    job: { status, outputs: null, error, artifacts: [] },
  };
}

/** Refund of charged credits. */
interface Refund {
  organizationId: string;
  id: string;
  /** Idempotency id of the refund. It is unique among the refunds of the reservation. */
  refundId: string;
  /** Micro-credits to refund. Defaults to all charged micro-credits that have not been refunded. */
  amountMicro?: number | undefined;
  actor: string;
  reason: string;
}

/** Schema of the result of a refund. Amounts are micro-credits. */
const refundResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('refunded'),
    repeated: z.boolean(),
    amount: z.number(),
    /** Sum of all refunds of the reservation. */
    refunded: z.number(),
    balance,
  }),
  z.object({
    /** The amount is larger than the part of the charge that has not been refunded. */
    verdict: z.literal('not_refundable'),
    state: z.enum(['reserved', 'charged', 'released']),
    charged: z.number(),
    refunded: z.number(),
  }),
  z.object({ verdict: z.literal('mismatch') }),
]);
export type RefundResult = z.infer<typeof refundResult>;

/** Grant of credits. A negative amount removes unreserved credits. */
interface Grant {
  organizationId: string;
  /** Idempotency id of the grant. */
  id: string;
  amountMicro: number;
  actor: string;
  reason: string;
}

/** Schema of the result of a grant. Its balance is in micro-credits. */
const grantResult = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.enum(['granted', 'mismatch']), repeated: z.boolean(), balance }),
  insufficientCredits,
  z.object({ verdict: z.literal('no_account') }),
]);
type GrantResult = z.infer<typeof grantResult>;

/** Creates the ledger. Omit `metrics` in command-line tools. */
export function createLedger(pool: DatabasePool, metrics?: Metrics) {
  const apply = createApplyOperation(pool, { name: 'ledger', metrics });
  return {
    /**
     * Reserves credits.
     * @throws AssertionError if the organization has no account, or if the id was already reserved
     * with a different amount
     */
    reserve: async ({ amountMicro, ...reservation }: Reservation): Promise<ReserveResult> => {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the price must be a non-negative integer',
      );
      return apply({ verb: 'reserve', amount: amountMicro, ...reservation }, reserveResult);
    },
    /** Charges or releases reserved credits. */
    settle: async (settlement: Settlement): Promise<SettleResult> => {
      const { amountMicro, job, ...settle } = settlement;
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the charge must be a non-negative integer',
      );
      const operation = { verb: 'settle', amount: amountMicro, ...settle };
      return apply(job ? { ...operation, job: asJson(job) } : operation, settleResult);
    },
    /** Refunds charged credits. @throws AssertionError if the reservation does not exist */
    refund: ({ amountMicro, ...refund }: Refund): Promise<RefundResult> =>
      apply({ verb: 'refund', amount: amountMicro ?? null, ...refund }, refundResult),
    grant: ({ amountMicro, ...grant }: Grant): Promise<GrantResult> =>
      apply({ verb: 'grant', amount: amountMicro, ...grant }, grantResult),
  };
}
export type Ledger = ReturnType<typeof createLedger>;
