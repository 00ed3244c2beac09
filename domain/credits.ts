/**
 * Credits arithmetic. Inside, money is an integer count of micro-credits (1 credit = 1,000,000);
 * JSON answers carry numbers in credits (design §5).
 */
import { assert } from './errors.ts';

/** Micro-credits in one credit. */
const microPerCredit = 1_000_000;

/**
 * Micro-credits of an amount in credits, rounded up: a price is never lost to rounding.
 * @throws AssertionError when the amount is not finite, negative or beyond the safe integers.
 */
export function microFromCredits(credits: number): number {
  assert(Number.isFinite(credits) && credits >= 0, 'credits are a finite, non-negative number');
  // 0.1 + 0.2 must not cost one micro-credit more than 0.3: cut the noise of binary fractions first.
  const micro = Math.ceil(Number((credits * microPerCredit).toPrecision(15)));
  assert(Number.isSafeInteger(micro), 'micro-credits are a safe integer');
  return micro;
}

/** Credits, as a JSON number, of an integer amount of micro-credits. */
export function creditsFromMicro(micro: number): number {
  assert(Number.isSafeInteger(micro), 'micro-credits are a safe integer');
  return micro / microPerCredit;
}

/** The `credits` block of a Studio answer (spec §2.7), in credits. */
export interface CreditsBlock {
  used: number;
  cost: number;
  remaining: number;
}
