/**
 * Errors for rejected reservations: 402 with the missing amount, 429 with the end of the window
 * (spec §7).
 */
import type { Refusal } from '../jobs/ledger-verdicts.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { GatewayError } from '../domain/errors.ts';
import { isoTime } from '../domain/json.ts';

/**
 * Throws the error for a rejected reservation.
 * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED,
 * WINDOW_EXHAUSTED
 */
export function throwRefusal(verdict: Refusal): never {
  switch (verdict.verdict) {
    case 'insufficient_credits':
      throw new GatewayError('INSUFFICIENT_CREDITS', undefined, {
        body: {
          required: creditsFromMicro(verdict.required),
          available: creditsFromMicro(verdict.balance.available),
          reserved: creditsFromMicro(verdict.balance.reserved),
        },
      });
    case 'key_limit_exceeded':
      throw keyLimitExceeded(verdict);
    case 'window_limit_exceeded':
      throw new GatewayError('WINDOW_LIMIT_EXCEEDED', undefined, {
        body: {
          required: creditsFromMicro(verdict.required),
          limit: creditsFromMicro(verdict.limit),
        },
      });
    case 'window_exhausted': {
      const resetAtMs = Date.parse(verdict.resetAt);
      const waitSeconds = Math.max(1, Math.ceil((resetAtMs - Date.parse(verdict.now)) / 1000));
      throw new GatewayError('WINDOW_EXHAUSTED', undefined, {
        body: {
          required: creditsFromMicro(verdict.required),
          limit: creditsFromMicro(verdict.limit),
          used: creditsFromMicro(verdict.used),
          remaining: creditsFromMicro(Math.max(0, verdict.limit - verdict.used)),
          resetAt: new Date(resetAtMs).toISOString(),
        },
        retryAfterSeconds: waitSeconds,
      });
    }
  }
}

function keyLimitExceeded(
  verdict: Extract<Refusal, { verdict: 'key_limit_exceeded' }>,
): GatewayError {
  const { limit, per, used, resetsAtMs } = verdict;
  const message =
    limit === 0 ? 'The budget of this key is zero: it may not spend any credits.' : undefined;
  return new GatewayError('KEY_LIMIT_EXCEEDED', message, {
    body: {
      required: creditsFromMicro(verdict.required),
      limit: creditsFromMicro(limit),
      per,
      used: creditsFromMicro(used),
      resetsAt: isoTime(resetsAtMs),
    },
  });
}
