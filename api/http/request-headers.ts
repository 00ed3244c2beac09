/** Parses the request headers `Idempotency-Key`, `X-End-User` and `Prefer` (RFC 7240). */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import type { Context } from '../context.ts';
import { findEndUser, scopeIdempotencyKey } from '../middleware/token-rules.ts';
import { addEndUser, endUserSchema, splitEndUser } from '../../domain/end-users.ts';
import { fieldError, fieldsError } from '../../domain/errors.ts';
import { parseWith } from '../../domain/parsing.ts';

/** Schema of an Idempotency-Key. */
const keyText = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable ASCII characters without spaces');
const header = z.object({ 'Idempotency-Key': keyText });

/** Schema of `Idempotency-Key` for the OpenAPI documents. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText.optional().meta({
    description:
      'Makes retries safe: a second request with the same key and body returns the result of the first. A request with the same key and a different body is rejected.',
  }),
});

/** Schema of the header that names the end user, for requests and for the OpenAPI documents. */
export const endUserHeader = z.object({
  'X-End-User': endUserSchema.optional().meta({
    description:
      'End user of the request, as in the field `endUser` of the body. The encoding is UTF-8.',
    example: 'customer-7',
  }),
});

/** Schema of the headers of requests that reserve credits. */
export const spendingHeaders = idempotencyHeader.extend(endUserHeader.shape);

/**
 * Returns the Idempotency-Key of a request under the name that it is stored with, or null.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseIdempotencyKey({
  headers,
  state,
}: Pick<Context, 'headers' | 'state'>): string | null {
  const key = headers['idempotency-key'];
  if (key === undefined) return null;
  const parsed = parseWith(header, { 'Idempotency-Key': key })['Idempotency-Key'];
  return scopeIdempotencyKey(state.caller ?? {}, parsed);
}

/** Returns the end user that the header of a request names, in UTF-8. @throws GatewayError INVALID_REQUEST */
export function parseEndUser({ req }: Pick<Context, 'req'>): string | undefined {
  // `headers` would join repeated headers to one end user, without the limits of either.
  const [sent, ...others] = req.headersDistinct['x-end-user'] ?? [];
  if (sent === undefined) return undefined;
  if (others.length > 0) throw fieldError('INVALID_REQUEST', 'X-End-User', 'must not be repeated');
  // Node decodes each byte of a header as one character.
  const bytes = Buffer.from(sent, 'latin1');
  if (!isUtf8(bytes)) throw fieldError('INVALID_REQUEST', 'X-End-User', 'must be UTF-8');
  const text = bytes.toString();
  return parseWith(endUserHeader, { 'X-End-User': text })['X-End-User'];
}

/**
 * Adds the end user to the metadata of a request, unless its body names one: that of the header, or
 * `endUserDefault`. With a browser token, it is that of the token.
 * @throws GatewayError CONFLICTING_FIELDS if body and header name different ones, FORBIDDEN if one of
 * them is another than that of the token
 */
export function completeEndUser(
  ctx: Pick<Context, 'req' | 'state'>,
  metadata: Record<string, string> | null,
  endUserDefault: string | null = null,
): Record<string, string> | null {
  const named = parseEndUser(ctx);
  const { endUser } = splitEndUser(metadata);
  const { caller } = ctx.state;
  findEndUser(caller, 'X-End-User', named);
  findEndUser(caller, 'endUser', endUser);
  if (endUser !== null && named !== undefined && named !== endUser) {
    const message = 'name different end users: send only one of them';
    throw fieldsError('CONFLICTING_FIELDS', ['endUser', 'X-End-User'], message);
  }
  const found = caller.token
    ? findEndUser(caller, 'user', endUserDefault)
    : (endUser ?? named ?? endUserDefault);
  ctx.state.endUser = found ?? undefined;
  return addEndUser(metadata, found);
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
