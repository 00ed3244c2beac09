/** Results of the creation and change of API keys in Postgres (keys.sql), and their errors. */
import { z } from 'zod';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { keyMeta } from './key-fields.ts';

/** Schema of the results of the functions in keys.sql that create and change keys. */
export const keyVerdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['created', 'set']),
    organizationId: z.string(),
    meta: keyMeta,
    /** Expiry of the old key, in milliseconds since 1970, if the verdict is of a rotation. */
    oldExpiresAt: z.number().optional(),
  }),
  z.object({ verdict: z.literal('exceeds_maker'), field: z.string() }),
  z.object({
    verdict: z.enum([
      'quota_reached',
      'expiry_past',
      'no_member',
      'not_found',
      'already_replaced',
      'maker_gone',
    ]),
  }),
]);
type KeyVerdict = z.infer<typeof keyVerdict>;
/** Key that was created or changed. */
export type Accepted = Extract<KeyVerdict, { verdict: 'created' | 'set' }>;

/** Returns the record of the new key, or throws the error for the verdict of the database. */
export function requireAccepted(answer: KeyVerdict): Accepted {
  switch (answer.verdict) {
    case 'created':
    case 'set':
      return answer;
    case 'quota_reached':
      throw new GatewayError('KEY_QUOTA_REACHED');
    case 'expiry_past':
      throw pastExpiry();
    case 'exceeds_maker':
      throw new GatewayError(
        'FORBIDDEN',
        `A key must not have more permissions than the key that creates it: ${answer.field} exceeds them.`,
      );
    case 'no_member':
      throw new GatewayError('NOT_FOUND', 'No such user.');
    case 'not_found':
      throw new GatewayError('NOT_FOUND', 'No such API key.');
    case 'already_replaced':
      throw new GatewayError('KEY_ALREADY_REPLACED');
    case 'maker_gone':
      // The key of the request was revoked or has expired after its admission.
      throw new GatewayError('Unauthorized');
    default:
      return answer satisfies never;
  }
}

/** Makes the error for an expiry that is not in the future. */
export function pastExpiry(): GatewayError {
  const message = 'must be in the future';
  return fieldError('INVALID_REQUEST', 'expiresAt', message);
}
