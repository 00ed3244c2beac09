/** Parses the header `Idempotency-Key`. */
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
