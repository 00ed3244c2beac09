/** What the ledger answers of a job's money, as workflow, activities and API have it. Amounts in micro-credits. */
import { z } from 'zod';

/** Micro-credits of an organization; `available` = posted − reserved. */
export const balance = z.object({
  posted: z.number(),
  reserved: z.number(),
  available: z.number(),
});
export type Balance = z.infer<typeof balance>;

/** There is less than `required`. */
export const insufficientCredits = z.object({
  verdict: z.literal('insufficient_credits'),
  required: z.number(),
  balance,
});

/** The budget that a key spends from; `used` is reserved or charged in the period, which ends at `resetsAtMs`, if it does. */
export const keyBudget = z.object({
  limit: z.number(),
  per: z.enum(['day', 'week', 'month', 'total']),
  used: z.number(),
  resetsAtMs: z.number().nullable(),
});

/** There is less than `required` left of the key's budget. */
export const keyLimitExceeded = keyBudget.extend({
  verdict: z.literal('key_limit_exceeded'),
  required: z.number(),
});

/** A verdict that is no reservation; times are ISO 8601, by the database's clock. */
export const refusal = z.discriminatedUnion('verdict', [
  insufficientCredits,
  keyLimitExceeded,
  z.object({
    /** More than a whole window allows: no waiting helps. */
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

/** The answer to a reservation. */
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

/** What became of a reservation; `state` is its state now, whoever settled it. */
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
