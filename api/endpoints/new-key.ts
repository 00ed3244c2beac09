/** Request and response of the endpoints with which callers and operators create an API key. */
import type { ParameterizedContext } from 'koa';
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

/** Returns the response with a new key, and forbids caches to store it. */
export function buildNewKeyResponse(
  ctx: ParameterizedContext,
  { key, meta }: NewKey,
): z.infer<typeof newKey> {
  ctx.set('Cache-Control', 'no-store');
  return { key, ...meta };
}
