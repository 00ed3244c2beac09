/** The header `Idempotency-Key` (design §4). */
import { z } from 'zod';
import type { Context } from '../context.ts';
import { parseWith } from '../http/parsing.ts';

/** Schema of an Idempotency-Key: 1–255 printable ASCII characters without spaces (design §4). */
const keyText = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': keyText });

/** Schema of the header in the descriptions of endpoints. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText.optional().meta({
    description:
      'A repeated request with the same key and body returns the first result; a different body is rejected.',
  }),
});

/** Returns the Idempotency-Key, or null. @throws GatewayError INVALID_REQUEST */
export function idempotencyKeyOf(ctx: Pick<Context, 'headers'>): string | null {
  const key = ctx.headers['idempotency-key'];
  if (key === undefined) return null;
  return parseWith(header, { 'Idempotency-Key': key })['Idempotency-Key'];
}
