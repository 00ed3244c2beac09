/** /api/v1/api-keys: the keys of the authenticated user (spec §4.3), and their rotation; /api/v1/key: the key itself. */
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
import { defineOperation, section } from './operation.ts';

const path = '/api/v1/api-keys';
const params = z.object({ keyId: pathId('key') });
const dayMs = 86_400_000;
/** Time to roll a new key out where the wish does not say. */
const overlapPresetMs = dayMs;
const overlapSecondsMax = (30 * dayMs) / 1000;
const refusesViewers = 'A viewer may not create keys.';

/** A new key. */
export const newKey = keyMeta.extend({
  key: z.string().meta({ description: 'Shown only once.' }),
});

/** What is said of a key that is wanted. */
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

/** A new key as it is answered; no cache on the way may keep the secret. */
export function shownOnce(
  ctx: ParameterizedContext,
  { key, meta }: NewKey,
): z.infer<typeof newKey> {
  ctx.set('Cache-Control', 'no-store');
  return { key, ...meta };
}

/** By the database's clock, which decides of expiry everywhere. */
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

/** List, create, rotate, limit, revoke; and who a key is. */
export const apiKeys = section('API keys', {
  listApiKeys: defineOperation({
    route: `GET ${path}`,
    scope: 'keys:read',
    summary: 'List your API keys, newest first',
    answer: z.object({ keys: z.array(listedKey) }),
    answers: { 200: 'The keys that are not revoked.' },
    handle: async ({ caller }, { keys }) => ({ keys: await keys.list(caller.memberId) }),
  }),

  createApiKey: defineOperation({
    route: `POST ${path}`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Create an API key',
    description:
      'At most 10 per user. A key can do no more than the key that creates it: scopes, models and expiry that you leave ' +
      'out are taken from it. Keys created by a key with a limit share that limit. With an Idempotency-Key a repeat ' +
      'creates no second key and names the id of the first.',
    request: {
      headers: idempotencyHeader,
      body: z.strictObject(wantedKey),
      example: { name: 'my laptop' },
    },
    answer: newKey,
    answers: { 200: 'The key. It is shown once.' },
    errors: ['KEY_QUOTA_REACHED', 'KEY_ALREADY_CREATED'],
    async handle({ ctx, caller, body }, { pool, config, keys }) {
      const { expiresAt, ...rest } = body;
      const { memberId, organizationId, keyId: makerKeyId } = caller;
      requireFuture(caller, expiresAt);
      const keyId = newId('key');
      const wanted = { ...rest, keyId, memberId, makerKeyId, expiresAtMs: expiresAt };
      const idempotencyKey = idempotencyKeyOf(ctx);
      if (idempotencyKey === null) return shownOnce(ctx, await keys.create(wanted));
      // The secret is kept nowhere, so a repeat cannot show it: it is told which key was made.
      const told = { memberId, ...body };
      const request = { organizationId, idempotencyKey, path: '/api-keys', body: told };
      const made = await pool.transaction(async (connection) => {
        const claim = await claimKey(connection, { ...request, subjectId: keyId });
        if (claim.state === 'done') {
          const said = { body: { keyId: claim.subjectId } };
          throw new GatewayError('KEY_ALREADY_CREATED', undefined, said);
        }
        await finishClaim(connection, claim.name);
        return createKeys(connection, config.KEY_PEPPER).create(wanted);
      });
      return shownOnce(ctx, made);
    },
  }),

  rotateApiKey: defineOperation({
    route: `POST ${path}/:keyId/rotate`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Rotate an API key',
    description:
      'Creates a key with the same name and rights. The old one works until the end of the overlap (default: a day).',
    request: {
      params,
      body: rotation,
      bodyIsOptional: true,
      example: { overlapSeconds: 3600 },
    },
    answer: newKey.extend({ replaced: z.object({ keyId: z.string(), expiresAt: unixMs }) }),
    answers: { 200: 'The new key. It is shown once.' },
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

  setApiKeyLimit: defineOperation({
    route: `PUT ${path}/:keyId/limit`,
    scope: 'keys:write',
    refusesViewers,
    summary: 'Set the credit limit of an API key',
    description:
      'Credits per UTC day, week (from Monday), month, or in total; null: no limit. What was already spent in the period ' +
      'counts, and so do keys that share the limit: its replacements, and keys that it created. A key that has a limit ' +
      'may not change any limit.',
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

  revokeApiKey: defineOperation({
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

  getKey: defineOperation({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Get this key: its owner, scopes and remaining limit',
    answer: ownKey,
    answers: { 200: 'The key of the request.' },
    async handle({ caller }, { pool }) {
      const { keyId, memberId, organizationId, role: ofUser } = caller;
      const found = await pool.maybeOne(sql.type(ownRow)`
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget
        FROM api_key k JOIN organization o ON o.id = k.organization_id WHERE k.id = ${keyId}`);
      assert(found, 'a key that was admitted is there');
      const { meta, organization: organizationName, budget } = found;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: memberId,
        role: ofUser,
        budget: budgetView(budget),
      };
    },
  }),
});
