/** /api/v1/api-keys: manages the API keys of the authenticated user (spec §4.3). */
import { z } from 'zod';
import {
  keyExpiry,
  keyLimit,
  keyMeta,
  keyModels,
  keyName,
  keyScopes,
  type NewKey,
  listedKey,
  unixMs,
  pastExpiryError,
  createKeys,
  budgetSchema,
  formatBudget,
} from '../../identity/keys.ts';
import { type Caller, roleSchema } from '../../identity/access.ts';
import { defineCreation } from './creation.ts';
import { pathId } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { sql } from 'slonik';
import { assert } from '../../domain/errors.ts';
import { keyBudget } from '../../domain/credits.ts';

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

const path = '/api/v1/api-keys';
const params = z.object({ keyId: pathId('key') });
const dayMs = 86_400_000;
/** Default time for which a rotated key keeps working, in milliseconds. */
const overlapDefaultMs = dayMs;
const overlapSecondsMax = (30 * dayMs) / 1000;
const viewerError = 'A viewer may not create keys.';

const rotationRequest = z.strictObject({
  overlapSeconds: z.int().min(0).max(overlapSecondsMax).optional(),
  expiresAt: keyExpiry.nullish(),
});

/**
 * Checks that an expiry time is in the future, according to the database clock.
 * @throws GatewayError INVALID_REQUEST if it is not
 */
function checkExpiryTime({ nowMs }: Caller, expiresAtMs: number | null | undefined): void {
  if (typeof expiresAtMs === 'number' && expiresAtMs <= nowMs) throw pastExpiryError();
}

/** Endpoints that manage the caller's API keys. */
export const apiKeys = defineSection('API keys', {
  listApiKeys: defineEndpoint({
    route: `GET ${path}`,
    scope: 'keys:read',
    summary: 'List your API keys, newest first',
    response: z.object({ keys: z.array(listedKey) }),
    responses: { 200: 'The keys that have not been revoked.' },
    handle: async ({ caller }, { keys }) => ({ keys: await keys.list(caller.userId) }),
  }),

  createApiKey: defineCreation({
    route: `POST ${path}`,
    scope: 'keys:write',
    viewerError,
    summary: 'Create an API key',
    description:
      'A user can have at most 10 keys. A new key can have at most the permissions of the key that creates it; scopes, models and ' +
      'expiry that you omit are copied from that key. Keys created by a key with a limit share that limit.',
    request: { body: z.strictObject(newKeyFields), example: { name: 'my laptop' } },
    response: newKey,
    created: newKeyShown,
    errors: ['KEY_QUOTA_REACHED'],
    async create({ caller, body }, { config }, connection) {
      const { expiresAt, ...rest } = body;
      const { userId, keyId: actingKeyId } = caller;
      checkExpiryTime(caller, expiresAt);
      const keyRequest = { ...rest, userId, actingKeyId, expiresAtMs: expiresAt };
      return formatNewKey(await createKeys(connection, config.KEY_PEPPER).create(keyRequest));
    },
  }),

  rotateApiKey: defineCreation({
    route: `POST ${path}/:keyId/rotate`,
    scope: 'keys:write',
    viewerError,
    summary: 'Rotate an API key',
    description:
      'Creates a key with the same name and permissions. The old key keeps working for `overlapSeconds` (default: one day).',
    request: {
      params,
      body: rotationRequest,
      bodyIsOptional: true,
      example: { overlapSeconds: 3600 },
    },
    response: newKey.extend({ replaced: z.object({ keyId: z.string(), expiresAt: unixMs }) }),
    created: newKeyShown,
    errors: ['KEY_QUOTA_REACHED', 'NOT_FOUND', 'KEY_ALREADY_REPLACED'],
    async create({ caller, params: { keyId }, body }, { config }, connection) {
      const { overlapSeconds, expiresAt } = body;
      checkExpiryTime(caller, expiresAt);
      const createdKey = await createKeys(connection, config.KEY_PEPPER).rotate({
        userId: caller.userId,
        actingKeyId: caller.keyId,
        keyId,
        overlapMs: overlapSeconds === undefined ? overlapDefaultMs : overlapSeconds * 1000,
        expiresAtMs: expiresAt,
      });
      return {
        ...formatNewKey(createdKey),
        replaced: { keyId, expiresAt: createdKey.oldExpiresAt },
      };
    },
  }),

  setApiKeyLimit: defineEndpoint({
    route: `PUT ${path}/:keyId/limit`,
    scope: 'keys:write',
    viewerError,
    summary: 'Set the credit limit of an API key',
    description:
      'Limits the credits that the key can spend per UTC day, week (from Monday) or month, or in total; null removes the limit. ' +
      'Credits already spent in the period count toward the limit. Keys that replaced this key, and keys that it created, share the limit. A key that has a ' +
      'limit may not change any limit.',
    request: {
      params,
      body: z.strictObject({ limit: keyLimit.nullable() }),
      example: { limit: { credits: 500, per: 'month' } },
    },
    response: keyMeta,
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { keyId }, body: { limit } }, { keys }) {
      const { userId, keyId: actingKeyId } = caller;
      return (await keys.setLimit({ keyId, userId, actingKeyId, limit })).meta;
    },
  }),

  revokeApiKey: defineEndpoint({
    route: `DELETE ${path}/:keyId`,
    scope: 'keys:write',
    summary: 'Revoke an API key',
    request: { params },
    response: z.object({ success: z.literal(true), keyId: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { keyId } }, { keys }) {
      await keys.revoke(keyId, caller.userId);
      return { success: true as const, keyId };
    },
  }),
});

const keyRowSchema = z.object({
  meta: keyMeta,
  organization: z.string(),
  budget: keyBudget.nullable(),
});

const ownKeySchema = keyMeta.extend({
  organizationId: z.string(),
  organizationName: z.string(),
  userId: z.string(),
  role: roleSchema,
  budget: budgetSchema,
});

/** Endpoint that describes the API key that sent the request. */
export const ownKey = defineSection('API keys', {
  getKey: defineEndpoint({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Get the API key that sent the request: its owner, scopes and remaining limit',
    response: ownKeySchema,
    responses: { 200: 'The key.' },
    async handle({ caller }, { pool }) {
      const { keyId, userId, organizationId, role: userRole } = caller;
      const keyRow = await pool.maybeOne(sql.type(keyRowSchema)`
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget
        FROM api_key k JOIN organization o ON o.id = k.organization_id WHERE k.id = ${keyId}`);
      assert(keyRow, 'the authenticated key is missing from the database');
      const { meta, organization: organizationName, budget } = keyRow;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: userId,
        role: userRole,
        budget: formatBudget(budget),
      };
    },
  }),
});
