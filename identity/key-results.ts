/** Results of the SQL functions that create and change API keys (keys.sql), and their errors. */
import { z } from 'zod';
import { fieldError, GatewayError } from '../domain/errors.ts';
import { keyMeta } from './key-fields.ts';

/** Schema of the result of an SQL function that creates or changes a key (keys.sql). */
export const keyResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['created', 'set']),
    organizationId: z.string(),
    meta: keyMeta,
    /** Expiry of the old key after a rotation, in milliseconds since 1970. */
    oldExpiresAt: z.number().optional(),
  }),
  z.object({ verdict: z.literal('exceeds_acting_key'), field: z.string() }),
  z.object({
    verdict: z.enum([
      'quota_reached',
      'expiry_past',
      'no_member',
      'not_found',
      'already_replaced',
      'acting_key_invalid',
    ]),
  }),
]);
type KeyResult = z.infer<typeof keyResult>;
/** Result for a key that was created or changed. */
export type ChangedKey = Extract<KeyResult, { verdict: 'created' | 'set' }>;

/** Returns the new or changed key. @throws GatewayError if the database rejected the request */
export function requireChanged(result: KeyResult): ChangedKey {
  switch (result.verdict) {
    case 'created':
    case 'set':
      return result;
    case 'quota_reached':
      throw new GatewayError('KEY_QUOTA_REACHED');
    case 'expiry_past':
      throw pastExpiryError();
    case 'exceeds_acting_key':
      throw new GatewayError(
        'FORBIDDEN',
        `A key must not have more permissions than the key that creates it: ${result.field} exceeds them.`,
      );
    case 'no_member':
      throw new GatewayError('NOT_FOUND', 'No such user.');
    case 'not_found':
      throw new GatewayError('NOT_FOUND', 'No such API key.');
    case 'already_replaced':
      throw new GatewayError('KEY_ALREADY_REPLACED');
    case 'acting_key_invalid':
      // The key of the request was revoked or expired while the request was running.
      throw new GatewayError('Unauthorized');
    default:
      return result satisfies never;
  }
}

/** Returns the error for an expiry that is not in the future. */
export function pastExpiryError(): GatewayError {
  const message = 'must be in the future';
  return fieldError('INVALID_REQUEST', 'expiresAt', message);
}
