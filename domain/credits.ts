/** Converts between credits (in JSON) and integer micro-credits (in the code's calculations). */
import { assert } from './errors.ts';

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

/** Object `credits` of a Studio response (spec §2.7); all amounts are in credits. */
export interface CreditsBlock {
  used: number;
  cost: number;
  remaining: number;
}
