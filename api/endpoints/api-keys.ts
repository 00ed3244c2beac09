/** /api/v1/api-keys: manages the API keys of the authenticated user (spec §4.3). */
import { z } from 'zod';
import {
  keyExpiry,
  jobsMax,
  keyLimit,
  keyMeta,
  keyModels,
  keyName,
  keyScopes,
  type NewKey,
  listedKey,
  rateLimit,
  unixMs,
  pastExpiryError,
  createKeys,
  budgetSchema,
  formatBudget,
} from '../../identity/keys.ts';
import { type Caller, roleSchema } from '../../identity/access.ts';
import { defineCreation } from './creation.ts';
import { pathId, requireChange } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { sql } from 'slonik';
import { assert } from '../../domain/errors.ts';
import { keyBudget } from '../../domain/credits.ts';

/** Schema of a new key including its secret. */
export const newKey = keyMeta.extend({
  key: z.string().meta({ description: 'The secret API key. It is shown only once.' }),
});

/** Limits of a key. Null removes a limit, and an omitted one stays. */
export const keyLimitFields = {
  limit: keyLimit.nullish(),
  rateLimit: rateLimit.nullish(),
  jobsMax: jobsMax.nullish(),
};

/** Fields of a request for a new key. */
export const newKeyFields = {
  name: keyName,
  expiresAt: keyExpiry.nullish(),
  scopes: keyScopes.optional(),
  allowedModels: keyModels.optional(),
  ...keyLimitFields,
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
      'expiry that you omit are copied from that key. Keys created by a key with limits share them.',
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
    summary: 'Set limits of an API key',
    description:
      '`limit` is the number of credits that the key can spend per UTC day, week (from Monday) or month, or in total; credits already spent in the period ' +
      'count. `rateLimit` is the number of requests per minute, `jobsMax` that of jobs that may be open at the same time. Null removes a limit, and a ' +
      'limit that you omit stays. Keys that replaced this key, and keys that it created, share its limits. A key that has a limit may not change any limit.',
    request: {
      params,
      body: requireChange(z.strictObject(keyLimitFields)),
      example: { limit: { credits: 500, per: 'month' }, rateLimit: 120, jobsMax: 5 },
    },
    response: keyMeta,
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { keyId }, body }, { keys }) {
      const { userId, keyId: actingKeyId } = caller;
      return (await keys.setLimits({ ...body, keyId, userId, actingKeyId })).meta;
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
  jobsOpen: z.number(),
  organizationLimits: z.object({
    rateLimit: z.number().nullable(),
    jobsMax: z.number().nullable(),
    jobsOpen: z.number(),
  }),
});

const ownKeySchema = keyMeta.extend({
  organizationId: z.string(),
  organizationName: z.string(),
  userId: z.string(),
  role: roleSchema,
  budget: budgetSchema,
  jobsOpen: z.int().meta({
    description: 'Open Studio jobs of the key and of the keys that share its limits.',
  }),
  organizationLimits: keyRowSchema.shape.organizationLimits.meta({
    description:
      'Limits of all keys of the organization together: requests per minute (null: the default) and open jobs (null: no limit).',
  }),
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
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget,
          open_jobs(o.id, coalesce(k.budget_of, k.id), NULL) AS "jobsOpen",
          jsonb_build_object('rateLimit', o.rate_limit, 'jobsMax', a.jobs_max,
            'jobsOpen', open_jobs(o.id, NULL, NULL)) AS "organizationLimits"
        FROM api_key k JOIN organization o ON o.id = k.organization_id
          JOIN account a ON a.organization_id = o.id
        WHERE k.id = ${keyId}`);
      assert(keyRow, 'the authenticated key is missing from the database');
      const { meta, organization: organizationName, budget, jobsOpen, organizationLimits } = keyRow;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: userId,
        role: userRole,
        budget: formatBudget(budget),
        jobsOpen,
        organizationLimits,
      };
    },
  }),
});
