/**
 * Results of ledger transactions, as workflows, activities and the API receive them. Amounts are
 * micro-credits.
 */
import { z } from 'zod';

/** Balance of an organization, in micro-credits; `available` = posted − reserved. */
export const balance = z.object({
  posted: z.number(),
  reserved: z.number(),
  available: z.number(),
});
export type Balance = z.infer<typeof balance>;

/** The balance is insufficient: less than `required` is available. */
export const insufficientCredits = z.object({
  verdict: z.literal('insufficient_credits'),
  required: z.number(),
  balance,
});

/**
 * Budget of an API key. `used` is what was reserved or charged in the current period, which ends at
 * `resetsAtMs` (null if it never ends).
 */
export const keyBudget = z.object({
  limit: z.number(),
  per: z.enum(['day', 'week', 'month', 'total']),
  used: z.number(),
  resetsAtMs: z.number().nullable(),
});

/** The budget of the API key is insufficient: less than `required` remains. */
export const keyLimitExceeded = keyBudget.extend({
  verdict: z.literal('key_limit_exceeded'),
  required: z.number(),
});

/**
 * Reason why the ledger rejected a reservation. Times are ISO 8601, measured with the database's
 * clock.
 */
export const refusal = z.discriminatedUnion('verdict', [
  insufficientCredits,
  keyLimitExceeded,
  z.object({
    /**
     * The price exceeds the allowance of a whole six-hour window, so that waiting does not help.
     */
    verdict: z.literal('window_limit_exceeded'),
    required: z.number(),
    limit: z.number(),
    balance,
  }),
  z.object({
    verdict: z.literal('window_exhausted'),
    required: z.number(),
    limit: z.number(),
    used: z.number(),
    resetAt: z.string(),
    now: z.string(),
    balance,
  }),
]);
export type Refusal = z.infer<typeof refusal>;

/** Result of a reservation. */
export const reserveVerdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('reserved'),
    repeated: z.boolean(),
    state: z.string(),
    createdAt: z.string(),
    balance,
  }),
  refusal,
]);
export type ReserveVerdict = z.infer<typeof reserveVerdict>;

/**
 * Result of a settlement. `state` is the state of the reservation, even if it was already settled.
 */
export const settleVerdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['settled', 'already_settled']),
    state: z.enum(['charged', 'released']),
    charged: z.number(),
    balance,
  }),
  z.object({ verdict: z.literal('not_reserved') }),
]);
export type SettleVerdict = z.infer<typeof settleVerdict>;
