/**
 * Results of the ledger's moves, for workflows, activities and the API. Amounts are micro-credits.
 */
import { z } from 'zod';

/** Balance of an organization, in micro-credits; `available` = posted − reserved. */
export const balance = z.object({
  posted: z.number(),
  reserved: z.number(),
  available: z.number(),
});
export type Balance = z.infer<typeof balance>;

/** Refusal because less than `required` is available. */
export const insufficientCredits = z.object({
  verdict: z.literal('insufficient_credits'),
  required: z.number(),
  balance,
});

/**
 * Budget of a key; `used` was reserved or charged in the period that ends at `resetsAtMs` (null:
 * never).
 */
export const keyBudget = z.object({
  limit: z.number(),
  per: z.enum(['day', 'week', 'month', 'total']),
  used: z.number(),
  resetsAtMs: z.number().nullable(),
});

/** Refusal because the key's budget has less than `required` left. */
export const keyLimitExceeded = keyBudget.extend({
  verdict: z.literal('key_limit_exceeded'),
  required: z.number(),
});

/** Refusal of a reservation; times are ISO 8601, by the database's clock. */
export const refusal = z.discriminatedUnion('verdict', [
  insufficientCredits,
  keyLimitExceeded,
  z.object({
    /** Refusal because the price is higher than the allowance of a whole window. */
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
 * Result of a settlement; `state` is the current state of the reservation, also if it was settled
 * before.
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
