/** Headers that steer a request: Idempotency-Key (one key, one request; design §4) and Prefer (how long to wait). */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Context } from '../context.ts';
import { parseWith } from './body.ts';

/** Printable ASCII, 1–255 characters (design §4). */
const text = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': text });

/** The header as operations with it are described. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': text
    .optional()
    .meta({ description: 'The same key and body are one request; another body is refused.' }),
});

/**
 * The key of a request; null when it names none.
 * @throws GatewayError INVALID_REQUEST
 */
export function idempotencyKeyOf(ctx: Pick<Context, 'headers'>): string | null {
  const given = ctx.headers['idempotency-key'];
  if (given === undefined) return null;
  const key = parseWith(header, { 'Idempotency-Key': given });
  return key['Idempotency-Key'];
}

/** Hex SHA-256 of a parsed request: two spellings of one request are the same request. */
export function fingerprintOf(path: string, body: unknown): string {
  return createHash('sha256')
    .update(`${path}\n${JSON.stringify(body)}`)
    .digest('hex');
}

const preference = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/** Milliseconds of `Prefer: wait=n` (RFC 7240), never more than `maxMs`; `respond-async` is 0. */
export function preferredWaitMs(ctx: Context, maxMs: number): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = preference.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : maxMs;
}
