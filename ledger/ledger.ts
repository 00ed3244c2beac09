/**
 * The credit ledger: reserve → charge | release, refunds and grants. Each is a ledger operation,
 * idempotent by its id, which Postgres decides while the account of the organization is locked.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert, GatewayError, type ErrorCode } from '../domain/errors.ts';
import { toStorable, type JsonObject, toResponse, asJson, type Json } from '../domain/json.ts';
import { createBatcher } from '../platform/batch.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import {
  type Rejection,
  balance,
  insufficientCredits,
  reserveResult,
  settleResult,
  type ReserveResult,
  type SettleResult,
} from '../domain/credits.ts';
import type { CallOutputs, StoredArtifact } from '../domain/job-plan.ts';
import type { JobStep } from '../domain/job-record.ts';

/**
 * Applies a ledger operation `{verb, organizationId, id, …}` and returns its result.
 * @throws AssertionError if the result does not match the schema
 */
type ApplyOperation = <Result>(operation: JsonObject, schema: z.ZodType<Result>) => Promise<Result>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/** Time for which a batch waits for a locked account, in milliseconds. */
const lockTimeoutMs = 50;

/**
 * Creates the function that applies ledger operations. The metrics label its batches with `name`.
 */
export function createApplyOperation(
  pool: DatabasePool,
  observed: { name: string; metrics: Metrics | undefined },
): ApplyOperation {
  const applyInBatch = createBatcher<JsonObject, z.infer<typeof answer>>({
    ...observed,
    sizeMax: 200,
    // Two parallel batches could contain operations of the same organization; the second would wait
    // until the first unlocks the account.
    parallelMax: 1,
    getGroup: ({ organizationId }) => (typeof organizationId === 'string' ? organizationId : ''),
    run: (operations) =>
      pool.oneFirst(
        sql.type(
          row,
        )`SELECT ledger_apply(${sql.jsonb(toStorable(operations))}, ${lockTimeoutMs}) AS answers`,
      ),
  });
  return async (operation, schema) => {
    const result = await applyInBatch(operation);
    const parsed = schema.safeParse(result);
    assert(parsed.success, `unexpected result of a ledger operation: ${result.verdict}`);
    return parsed.data;
  };
}

/** `Retry-After` of a request that is rejected because of its open jobs, in seconds. */
const jobsRetrySeconds = 5;

/**
 * Throws the error for a rejected reservation: 402 with the amounts in credits, 429 with the end
 * of the six-hour window (spec §7), or 429 with the number of open jobs.
 * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, END_USER_LIMIT_EXCEEDED, END_USER_SUSPENDED,
 * WINDOW_LIMIT_EXCEEDED, WINDOW_EXHAUSTED, JOBS_MAX_REACHED, CANCELED, or too many requests
 */
export function throwRejection(rejection: Rejection): never {
  const { required: requiredMicro } = rejection;
  switch (rejection.verdict) {
    case 'insufficient_credits': {
      const { available: availableMicro, reserved: reservedMicro } = rejection.balance;
      const body = toResponse({ requiredMicro, availableMicro, reservedMicro });
      throw new GatewayError('INSUFFICIENT_CREDITS', undefined, { body });
    }
    case 'key_limit_exceeded':
    case 'token_limit_exceeded':
    case 'end_user_limit_exceeded': {
      const { limit: limitMicro, per, used: usedMicro, resetsAtMs } = rejection;
      const isKey = rejection.verdict !== 'end_user_limit_exceeded';
      const message =
        limitMicro === 0
          ? `The budget of this ${isKey ? 'key' : 'end user'} is zero: it may not spend any credits.`
          : undefined;
      const body = toResponse({ requiredMicro, limitMicro, per, usedMicro, resetsAtMs });
      const code = isKey ? 'KEY_LIMIT_EXCEEDED' : 'END_USER_LIMIT_EXCEEDED';
      throw new GatewayError(code, message, { body });
    }
    case 'end_user_suspended':
      throw new GatewayError('END_USER_SUSPENDED');
    case 'end_user_rate_limited': {
      const message = `This end user may make ${rejection.limit} requests per minute.`;
      throw new GatewayError('Rate limit exceeded. Please slow down.', message, {
        retryAfterSeconds: Math.max(1, Math.ceil(rejection.waitMs / 1000)),
      });
    }
    case 'window_limit_exceeded': {
      const body = toResponse({ requiredMicro, limitMicro: rejection.limit });
      throw new GatewayError('WINDOW_LIMIT_EXCEEDED', undefined, { body });
    }
    case 'window_exhausted': {
      const { limit: limitMicro, used: usedMicro } = rejection;
      const remainingMicro = Math.max(0, limitMicro - usedMicro);
      const resetAtMs = Date.parse(rejection.resetAt);
      const waitMs = resetAtMs - Date.parse(rejection.now);
      throw new GatewayError('WINDOW_EXHAUSTED', undefined, {
        body: toResponse({ requiredMicro, limitMicro, usedMicro, remainingMicro, resetAtMs }),
        retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
      });
    }
    case 'item_not_started':
      throw new GatewayError('CANCELED');
    case 'jobs_max_reached': {
      const { of, limit, open } = rejection;
      throw new GatewayError(
        'JOBS_MAX_REACHED',
        `This ${of} may have ${limit} open jobs at the same time, and has ${open}. Wait until one has ended.`,
        { body: { limitOf: of, limit, open }, retryAfterSeconds: jobsRetrySeconds },
      );
    }
  }
}

/** Schema of the state of an account. Amounts are micro-credits. */
export const accountState = z.object({
  posted: z.number(),
  reserved: z.number(),
  windowLimit: z.number().nullable(),
  /** Current six-hour window; null if no window is open. */
  window: z.object({ used: z.number(), startedAtMs: z.number(), resetAtMs: z.number() }).nullable(),
});

/** SQL columns of `accountState`, for a statement in which `a` is the account row. */
export const accountColumns = sql.fragment`a.posted, a.reserved, a.window_limit AS "windowLimit",
  CASE WHEN ledger_window_end(a.window_started_at) > now() THEN jsonb_build_object(
    'used', a.window_used, 'startedAtMs', unix_ms(a.window_started_at),
    'resetAtMs', unix_ms(ledger_window_end(a.window_started_at))) END AS window`;

/** Reservation of credits. The row of its `job` is inserted in the same transaction. */
export interface Reservation {
  organizationId: string;
  /** Id of the job or chat. A second reservation with the same id changes nothing. */
  id: string;
  kind: 'studio' | 'chat';
  amountMicro: number;
  /** Rows of the price book that set the price. */
  priceRows?: readonly string[];
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
    /** Steps of a pipeline. */
    steps?: JobStep[];
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
  /** Price in the catalog of what is charged, in micro-credits. */
  costMicro?: number;
  /** Rows of the price book that set the price. */
  priceRows?: readonly string[];
  reason: string;
  job?: {
    status: 'completed' | 'failed' | 'canceled';
    outputs: CallOutputs[] | null;
    error: { code: ErrorCode; message: string } | null;
    artifacts: StoredArtifact[];
    stepErrors?: Record<string, { code: string; message: string }>;
  };
}

/** Job that failed or was canceled. */
export interface UndeliveredJob {
  jobId: string;
  organizationId: string;
  status: 'failed' | 'canceled';
  error: { code: ErrorCode; message: string };
  /** Errors of the steps of a pipeline, by step id; absent for other jobs. */
  stepErrors?: Record<string, { code: string; message: string }>;
}

/** Builds the settlement that releases the credits of a job and ends the job. */
export function buildRelease({
  jobId,
  organizationId,
  status,
  error,
  stepErrors,
}: UndeliveredJob): Settlement {
  return {
    organizationId,
    id: jobId,
    to: 'released',
    amountMicro: 0,
    reason: error.code,
    job: { status, outputs: null, error, artifacts: [], ...(stepErrors && { stepErrors }) },
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
  /** The reservation does not exist, or was archived. */
  z.object({ verdict: z.literal('not_reserved') }),
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

/** Returns the fields of a ledger operation with the cost of a charge and the rows of the price book. */
export const toPriceFields = (
  cost: number | null | undefined,
  priceRows: readonly string[],
): { cost?: number; priceRows?: string[] } => ({
  ...(typeof cost === 'number' && { cost }),
  ...(priceRows.length > 0 && { priceRows: [...priceRows] }),
});

/** Creates the ledger. Omit `metrics` in command-line tools. */
export function createLedger(pool: DatabasePool, metrics?: Metrics) {
  const apply = createApplyOperation(pool, { name: 'ledger', metrics });
  return {
    /**
     * Reserves credits.
     * @throws AssertionError if the organization has no account, or if the id was already reserved
     * with a different amount
     */
    reserve: async ({
      amountMicro,
      priceRows = [],
      ...reservation
    }: Reservation): Promise<ReserveResult> => {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the price must be a non-negative integer',
      );
      return apply(
        { verb: 'reserve', amount: amountMicro, ...toPriceFields(null, priceRows), ...reservation },
        reserveResult,
      );
    },
    /** Charges or releases reserved credits. */
    settle: async (settlement: Settlement): Promise<SettleResult> => {
      const { amountMicro, costMicro: cost, priceRows = [], job, ...settle } = settlement;
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the charge must be a non-negative integer',
      );
      const operation = {
        verb: 'settle',
        amount: amountMicro,
        ...toPriceFields(cost, priceRows),
        ...settle,
      };
      return apply(job ? { ...operation, job: asJson(job) } : operation, settleResult);
    },
    /** Refunds charged credits. */
    refund: ({ amountMicro, ...refund }: Refund): Promise<RefundResult> =>
      apply({ verb: 'refund', amount: amountMicro ?? null, ...refund }, refundResult),
    grant: ({ amountMicro, ...grant }: Grant): Promise<GrantResult> =>
      apply({ verb: 'grant', amount: amountMicro, ...grant }, grantResult),
  };
}
export type Ledger = ReturnType<typeof createLedger>;
