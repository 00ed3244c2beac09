/** Conversion of credits: code calculates in integer micro-credits, JSON shows credits. */
import { assert } from './errors.ts';

/** Micro-credits in one credit. */
const microPerCredit = 1_000_000;

/**
 * Converts credits to micro-credits, rounded up, so that rounding never makes a price 0.
 * @throws AssertionError if the amount is negative, not finite, or larger than the safe integers
 */
export function microFromCredits(credits: number): number {
  assert(Number.isFinite(credits) && credits >= 0, 'credits must be a finite, non-negative number');
  // Rounds to 15 digits first. Otherwise 0.1 + 0.2, which is slightly above 0.3 in binary, would be
  // rounded up.
  const micro = Math.ceil(Number((credits * microPerCredit).toPrecision(15)));
  assert(Number.isSafeInteger(micro), 'micro-credits must be a safe integer');
  return micro;
}

/** Converts integer micro-credits to credits, as a JSON number. */
export function creditsFromMicro(micro: number): number {
  assert(Number.isSafeInteger(micro), 'micro-credits must be a safe integer');
  return micro / microPerCredit;
}

/** The `credits` block of a Studio response (spec §2.7), in credits. */
export interface CreditsBlock {
  used: number;
  cost: number;
  remaining: number;
}
