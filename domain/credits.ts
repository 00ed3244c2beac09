/** Converts between credits (in JSON) and integer micro-credits (in the code's calculations). */
import { assert } from './errors.ts';
import { z } from 'zod';

/** Micro-credits in one credit. */
const microPerCredit = 1_000_000;

/**
 * Converts credits to micro-credits. Rounds up, so that no price becomes 0.
 * @throws AssertionError if the amount is negative, not finite, or larger than the safe integers
 */
export function microFromCredits(credits: number): number {
  assert(Number.isFinite(credits) && credits >= 0, 'credits must be a finite, non-negative number');
  // The amount is first rounded to 15 digits. Otherwise the binary error of a sum such as 0.1 + 0.2
  // would be rounded up to one micro-credit.
  const micro = Math.ceil(Number((credits * microPerCredit).toPrecision(15)));
  assert(Number.isSafeInteger(micro), 'micro-credits must be a safe integer');
  return micro;
}

/** Converts integer micro-credits to credits, as a JSON number. */
export function creditsFromMicro(micro: number): number {
  assert(Number.isSafeInteger(micro), 'micro-credits must be a safe integer');
  return micro / microPerCredit;
}

/** Formats micro-credits as credits, such as `3.9 credits`. */
export const formatCredits = (micro: number): string => `${creditsFromMicro(micro)} credits`;

/** Object `credits` of a Studio response (spec §2.7); all amounts are in credits. */
export interface CreditsBlock {
  used: number;
  cost: number;
  /** Null for a browser token. */
  remaining: number | null;
}

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
 * Schema of the budget of an API key or an end user. `used` was reserved or charged in the current period, which
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

/** Schemas of the rejections of a reservation for an end user, which has limits of its own, as its browser tokens have. */
export const endUserRejections = [
  keyBudget.extend({ verdict: z.literal('token_limit_exceeded'), required: z.number() }),
  keyBudget.extend({ verdict: z.literal('end_user_limit_exceeded'), required: z.number() }),
  z.object({ verdict: z.literal('end_user_suspended'), required: z.number() }),
  z.object({
    verdict: z.literal('end_user_rate_limited'),
    /** Requests per minute. */
    limit: z.number(),
    /** Time until the end of the minute. */
    waitMs: z.number(),
    required: z.number(),
  }),
] as const;

/** Schema of a rejection: as many jobs are open as the limit `of` the key or the organization allows. */
export const jobsMaxReached = z.object({
  verdict: z.literal('jobs_max_reached'),
  of: z.enum(['key', 'organization']),
  limit: z.number(),
  open: z.number(),
  required: z.number(),
});

/** Schema of a rejection: the item of a bulk job was canceled or returned in the meantime. */
export const itemNotStarted = z.object({
  verdict: z.literal('item_not_started'),
  required: z.number(),
});

/**
 * Schema of the result of a rejected reservation. Times are ISO 8601, measured with the database's
 * clock.
 */
export const rejection = z.discriminatedUnion('verdict', [
  insufficientCredits,
  keyLimitExceeded,
  ...endUserRejections,
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
  jobsMaxReached,
  itemNotStarted,
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
