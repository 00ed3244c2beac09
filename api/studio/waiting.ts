/** How long a caller wants to wait for an answer. */
import type { Context } from '../context.ts';

const preference = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/** Milliseconds of `Prefer: wait=n` (RFC 7240), never more than `maxMs`; `respond-async` is 0. */
export function preferredWaitMs(ctx: Context, maxMs: number): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = preference.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : maxMs;
}
