/**
 * /api/v1/api-keys: the API keys of the authenticated user (spec §4.3); /api/v1/key: the key of the
 * request.
 */
import type { ParameterizedContext } from 'koa';
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError, assert } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import {
  claimKey,
  finishClaim,
  idempotencyHeader,
  idempotencyKeyOf,
} from '../idempotency/claims.ts';
import { type Caller, role } from '../identity/access.ts';
import {
  keyExpiry,
  keyLimit,
  keyMeta,
  listedKey,
  keyModels,
  keyName,
  keyScopes,
  unixMs,
  budgetSchema,
  budgetView,
} from '../identity/key-fields.ts';
import { createKeys, pastExpiry, type NewKey } from '../identity/keys.ts';
import { pathId } from './fields.ts';
import { defineEndpoint, section } from './endpoint.ts';

const path = '/api/v1/api-keys';
const params = z.object({ keyId: pathId('key') });
const dayMs = 86_400_000;
/** Default time that a rotated key still works, in milliseconds. */
const overlapPresetMs = dayMs;
const overlapSecondsMax = (30 * dayMs) / 1000;
const refusesViewers = 'A viewer may not create keys.';

/** Schema of a new key, with its secret. */
export const newKey = keyMeta.extend({
  key: z.string().meta({ description: 'The secret API key. It is shown only once.' }),
});

/** Fields of a request for a new key. */
export const wantedKey = {
  name: keyName,
  expiresAt: keyExpiry.nullish(),
  scopes: keyScopes.optional(),
  allowedModels: keyModels.optional(),
  limit: keyLimit.optional(),
};
const rotation = z.strictObject({
  overlapSeconds: z.int().min(0).max(overlapSecondsMax).optional(),
  expiresAt: keyExpiry.nullish(),
});

/**
 * Returns the response for a new key, and forbids caches to store it, because it contains the
 * secret.
 */
export function shownOnce(
  ctx: ParameterizedContext,
  { key, meta }: NewKey,
): z.infer<typeof newKey> {
  ctx.set('Cache-Control', 'no-store');
  return { key, ...meta };
}

/**
 * Checks that an expiry is in the future, by the clock of the database.
 * @throws GatewayError INVALID_REQUEST
 */
function requireFuture({ nowMs }: Caller, expiresAtMs: number | null | undefined): void {
  if (typeof expiresAtMs === 'number' && expiresAtMs <= nowMs) throw pastExpiry();
}

const ownRow = z.object({
  meta: keyMeta,
  organization: z.string(),
  budget: keyBudget.nullable(),
});

const ownKey = keyMeta.extend({
  organizationId: z.string(),
  organizationName: z.string(),
  userId: z.string(),
  role,
  budget: budgetSchema,
});

/** Endpoints on API keys. */
export const apiKeys = section('API keys', {
  listApiKeys: defineEndpoint({
    route: `GET ${path}`,
    scope: 'keys:read',
    summary: 'List your API keys, newest first',
    answer: z.object({ keys: z.array(listedKey) }),
    answers: { 200: 'The keys that are not revoked.' },
    handle: async ({ caller }, { keys }) => ({ keys: await keys.list(caller.memberId) }),
  }),

  createApiKey: defineEndpoint({
    route: `POST ${path}`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Create an API key',
    description:
      'A user can have at most 10 keys. A new key can have no more rights than the key that creates it: scopes, models and ' +
      'expiry that you omit are inherited. Keys created by a key with a limit share that limit. A repeated request with ' +
      'the same Idempotency-Key creates no second key: it fails with the id of the first key.',
    request: {
      headers: idempotencyHeader,
      body: z.strictObject(wantedKey),
      example: { name: 'my laptop' },
    },
    answer: newKey,
    answers: { 200: 'The key. It is shown only once.' },
    errors: ['KEY_QUOTA_REACHED', 'KEY_ALREADY_CREATED'],
    async handle({ ctx, caller, body }, { pool, config, keys }) {
      const { expiresAt, ...rest } = body;
      const { memberId, organizationId, keyId: makerKeyId } = caller;
      requireFuture(caller, expiresAt);
      const keyId = newId('key');
      const requested = { ...rest, keyId, memberId, makerKeyId, expiresAtMs: expiresAt };
      const idempotencyKey = idempotencyKeyOf(ctx);
      if (idempotencyKey === null) return shownOnce(ctx, await keys.create(requested));
      // The secret is not stored, so the response to a repeated request cannot contain it: it has
      // the id of the key.
      const identity = { memberId, ...body };
      const request = { organizationId, idempotencyKey, path: '/api-keys', body: identity };
      const made = await pool.transaction(async (connection) => {
        const claim = await claimKey(connection, { ...request, subjectId: keyId });
        if (claim.state === 'done') {
          throw new GatewayError('KEY_ALREADY_CREATED', undefined, {
            body: { keyId: claim.subjectId },
          });
        }
        await finishClaim(connection, claim.name);
        return createKeys(connection, config.KEY_PEPPER).create(requested);
      });
      return shownOnce(ctx, made);
    },
  }),

  rotateApiKey: defineEndpoint({
    route: `POST ${path}/:keyId/rotate`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Rotate an API key',
    description:
      'Creates a key with the same name and rights. The old key works until the end of the overlap (default: one day).',
    request: {
      params,
      body: rotation,
      bodyIsOptional: true,
      example: { overlapSeconds: 3600 },
    },
    answer: newKey.extend({ replaced: z.object({ keyId: z.string(), expiresAt: unixMs }) }),
    answers: { 200: 'The new key. It is shown only once.' },
    errors: ['KEY_QUOTA_REACHED', 'NOT_FOUND', 'KEY_ALREADY_REPLACED'],
    async handle({ ctx, caller, params: { keyId }, body }, { keys }) {
      const { overlapSeconds, expiresAt } = body;
      requireFuture(caller, expiresAt);
      const made = await keys.rotate({
        memberId: caller.memberId,
        makerKeyId: caller.keyId,
        keyId,
        overlapMs: overlapSeconds === undefined ? overlapPresetMs : overlapSeconds * 1000,
        expiresAtMs: expiresAt,
      });
      return { ...shownOnce(ctx, made), replaced: { keyId, expiresAt: made.oldExpiresAt } };
    },
  }),

  setApiKeyLimit: defineEndpoint({
    route: `PUT ${path}/:keyId/limit`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Set the credit limit of an API key',
    description:
      'Sets the credits per UTC day, week (from Monday) or month, or in total; null removes the limit. Credits already spent ' +
      'in the period count. Keys that replaced this key, and keys that it created, share the limit. A key that has a ' +
      'limit may not change any limit.',
    request: {
      params,
      body: z.strictObject({ limit: keyLimit.nullable() }),
      example: { limit: { credits: 500, per: 'month' } },
    },
    answer: keyMeta,
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { keyId }, body: { limit } }, { keys }) {
      const { memberId, keyId: makerKeyId } = caller;
      return (await keys.setLimit({ keyId, memberId, makerKeyId, limit })).meta;
    },
  }),

  revokeApiKey: defineEndpoint({
    route: `DELETE ${path}/:keyId`,
    scope: 'keys:write',
    summary: 'Revoke an API key',
    request: { params },
    answer: z.object({ success: z.literal(true), keyId: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { keyId } }, { keys }) {
      await keys.revoke(keyId, caller.memberId);
      return { success: true as const, keyId };
    },
  }),

  getKey: defineEndpoint({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Get the API key of the request: its owner, scopes and remaining limit',
    answer: ownKey,
    answers: { 200: 'The key.' },
    async handle({ caller }, { pool }) {
      const { keyId, memberId, organizationId, role: roleOfUser } = caller;
      const row = await pool.maybeOne(sql.type(ownRow)`
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget
        FROM api_key k JOIN organization o ON o.id = k.organization_id WHERE k.id = ${keyId}`);
      assert(row, 'an authenticated key exists');
      const { meta, organization: organizationName, budget } = row;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: memberId,
        role: roleOfUser,
        budget: budgetView(budget),
      };
    },
  }),
});
