/**
 * Results of ledger operations, as workflows, activities and the API receive them. Amounts are
 * micro-credits.
 */
import { z } from 'zod';

/** Schema of a balance in micro-credits; `available` is `posted` minus `reserved`. */
export const balance = z.object({
  posted: z.number(),
  reserved: z.number(),
  available: z.number(),
});
export type Balance = z.infer<typeof balance>;

/** Schema of a rejection: less than `required` micro-credits are available. */
export const insufficientCredits = z.object({
  verdict: z.literal('insufficient_credits'),
  required: z.number(),
  balance,
});

/**
 * Schema of the budget of an API key. `used` was reserved or charged in the current period, which
 * ends at `resetsAtMs` (null if it never ends).
 */
export const keyBudget = z.object({
  limit: z.number(),
  per: z.enum(['day', 'week', 'month', 'total']),
  used: z.number(),
  resetsAtMs: z.number().nullable(),
});

/** Schema of a rejection: less than `required` micro-credits remain in the budget of the key. */
export const keyLimitExceeded = keyBudget.extend({
  verdict: z.literal('key_limit_exceeded'),
  required: z.number(),
});

/**
 * Schema of the result of a rejected reservation. Times are ISO 8601, measured with the database's
 * clock.
 */
export const rejection = z.discriminatedUnion('verdict', [
  insufficientCredits,
  keyLimitExceeded,
  z.object({
    /** The price exceeds the limit of a whole six-hour window, so that waiting does not help. */
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
export type Rejection = z.infer<typeof rejection>;

/** Schema of the result of a reservation. */
export const reserveResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('reserved'),
    repeated: z.boolean(),
    state: z.string(),
    createdAt: z.string(),
    balance,
  }),
  rejection,
]);
export type ReserveResult = z.infer<typeof reserveResult>;

/** Schema of the result of a settlement. `state` may come from an earlier settlement. */
export const settleResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['settled', 'already_settled']),
    state: z.enum(['charged', 'released']),
    charged: z.number(),
    balance,
  }),
  z.object({ verdict: z.literal('not_reserved') }),
]);
export type SettleResult = z.infer<typeof settleResult>;
