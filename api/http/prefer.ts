/** The `Prefer` header (RFC 7240): the time that a request waits for a job. */
import type { Context } from '../context.ts';

const wait = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/**
 * Returns the milliseconds of `Prefer: wait=n`, at most `maxMs`; 0 for `respond-async`, and
 * `presetMs` without either.
 */
export function preferredWaitMs(
  ctx: Pick<Context, 'get'>,
  presetMs: number,
  maxMs = presetMs,
): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = wait.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : presetMs;
}
