/** Converts rejected reservations to errors. */
import type { Rejection } from '../domain/credits.ts';
import { GatewayError } from '../domain/errors.ts';
import { toResponse } from '../domain/json.ts';

/**
 * Throws the error for a rejected reservation: 402 with the amounts in credits, or 429 with the end
 * of the six-hour window (spec §7).
 * @throws GatewayError INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, WINDOW_LIMIT_EXCEEDED,
 * WINDOW_EXHAUSTED
 */
export function throwRejection(rejection: Rejection): never {
  const { required: requiredMicro } = rejection;
  switch (rejection.verdict) {
    case 'insufficient_credits': {
      const { available: availableMicro, reserved: reservedMicro } = rejection.balance;
      const body = toResponse({ requiredMicro, availableMicro, reservedMicro });
      throw new GatewayError('INSUFFICIENT_CREDITS', undefined, { body });
    }
    case 'key_limit_exceeded': {
      const { limit: limitMicro, per, used: usedMicro, resetsAtMs } = rejection;
      const message =
        limitMicro === 0
          ? 'The budget of this key is zero: it may not spend any credits.'
          : undefined;
      const body = toResponse({ requiredMicro, limitMicro, per, usedMicro, resetsAtMs });
      throw new GatewayError('KEY_LIMIT_EXCEEDED', message, { body });
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
  }
}
