/** Request and response of the endpoints with which callers and operators create an API key. */
import { z } from 'zod';
import {
  keyExpiry,
  keyLimit,
  keyMeta,
  keyModels,
  keyName,
  keyScopes,
  type NewKey,
} from '../../identity/keys.ts';

/** Schema of a new key including its secret. */
export const newKey = keyMeta.extend({
  key: z.string().meta({ description: 'The secret API key. It is shown only once.' }),
});

/** Fields of a request for a new key. */
export const newKeyFields = {
  name: keyName,
  expiresAt: keyExpiry.nullish(),
  scopes: keyScopes.optional(),
  allowedModels: keyModels.optional(),
  limit: keyLimit.optional(),
};

/** Description of an answer with a new key. */
export const newKeyShown =
  'The new key. Its secret is shown only here, and in the answers to repeated requests with the same Idempotency-Key.';

/** Returns the fields of a new key with its secret. */
export const formatNewKey = ({ key, meta }: NewKey): z.infer<typeof newKey> => ({ key, ...meta });
