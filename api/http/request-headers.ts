/** Parses the request headers `Idempotency-Key` and `Prefer` (RFC 7240). */
import { z } from 'zod';
import type { Context } from '../context.ts';
import { parseWith } from '../../domain/parsing.ts';

/** Schema of an Idempotency-Key. */
const keyText = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable ASCII characters without spaces');
const header = z.object({ 'Idempotency-Key': keyText });

/** Schema of the header for the OpenAPI documents. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText.optional().meta({
    description:
      'Makes retries safe: a second request with the same key and body returns the result of the first. A request with the same key and a different body is rejected.',
  }),
});

/** Returns the Idempotency-Key of a request, or null. @throws GatewayError INVALID_REQUEST */
export function parseIdempotencyKey(ctx: Pick<Context, 'headers'>): string | null {
  const key = ctx.headers['idempotency-key'];
  if (key === undefined) return null;
  return parseWith(header, { 'Idempotency-Key': key })['Idempotency-Key'];
}

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
