/** What fal's queue answers when a fault is asked for, or a caller is unknown (dev/sandbox/faults.ts). */
import { retryAfterOf, type Fault } from '../faults.ts';
import type { JsonAnswer } from '../http.ts';
import { modelFailure, ModelError, platformFailure } from './outcome.ts';

/** The words of fal by status. */
export const refusals: Record<number, string> = {
  401: 'Cannot access application. Authentication is required.',
  403: 'User is locked. Reason: Exhausted balance.',
  429: 'Too many requests. Please slow down.',
};

/** The answer of `[[submit:STATUS]]`: nothing was accepted. */
export function refusal(fault: Fault): JsonAnswer {
  const status = Number(fault.argument || 503);
  const headers = retryAfterOf(fault);
  const detail = refusals[status];
  if (detail !== undefined) return { status, body: { detail }, headers };
  const failure =
    status === 422
      ? modelFailure(
          new ModelError(422, [{ loc: ['body'], msg: 'Invalid input', type: 'value_error' }]),
        )
      : platformFailure(status);
  return { status, body: failure.body, headers: { ...failure.headers, ...headers } };
}
