/** Parses the `Prefer` header (RFC 7240), with which a client limits the wait for a job. */
import type { Context } from '../context.ts';

const wait = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/**
 * Returns the time that a request waits for its job, in milliseconds: n seconds for `wait=n` but at
 * most `maxMs`, 0 for `respond-async`, otherwise `defaultMs`.
 */
export function parsePreferredWaitMs(
  ctx: Pick<Context, 'get'>,
  defaultMs: number,
  maxMs = defaultMs,
): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = wait.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : defaultMs;
}
