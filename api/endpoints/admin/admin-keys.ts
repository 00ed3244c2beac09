/** Operator endpoints that list, create, limit and revoke a user's API keys. */
import { z } from 'zod';
import { scopes } from '../../../identity/access.ts';
import { recordAction } from '../../../identity/operators.ts';
import { keyMeta, listedKey, createKeys } from '../../../identity/keys.ts';
import { readUser } from '../../../identity/organizations.ts';
import {
  operatorFields,
  operatorFieldsBody,
  exampleOperatorFields,
  toData,
  listSchema,
  dataSchema,
  pathId,
  requireChange,
} from '../fields.ts';
import { defineCreation } from '../creation.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { newKey, newKeyFields, newKeyShown, formatNewKey, keyLimitFields } from '../api-keys.ts';

const params = z.object({ userId: pathId('user') });

/** Endpoints that manage the API keys of users. */
export const keys = defineSection('API keys', {
  listKeys: defineEndpoint({
    route: 'GET /api/admin/v1/users/:userId/keys',
    summary: 'List the keys of a user, newest first',
    request: { params },
    response: listSchema(listedKey),
    errors: ['NOT_FOUND'],
    async handle(call, services) {
      const { userId } = await readUser(services.pool, call.params.userId);
      return toData(await services.keys.list(userId));
    },
  }),

  createKey: defineCreation({
    route: 'POST /api/admin/v1/users/:userId/keys',
    summary: 'Create an API key for a user, with any permissions',
    request: {
      params,
      body: z.strictObject({ ...operatorFields, ...newKeyFields }),
      example: { ...exampleOperatorFields, name: 'reads', scopes: ['usage:read'] },
    },
    response: dataSchema(newKey),
    created: newKeyShown,
    errors: ['NOT_FOUND', 'KEY_QUOTA_REACHED'],
    async create({ params: { userId }, ...call }, { config }, connection) {
      const { actor: _actor, reason: _reason, expiresAt, ...fields } = call.body;
      const newRequest = { scopes, ...fields, userId: userId, expiresAtMs: expiresAt };
      const functions = createKeys(connection, config.KEY_PEPPER);
      const key = await functions.create({ ...newRequest, actingKeyId: null });
      const { keyId, name, scopes: granted, limit, rateLimit, jobsMax } = key.meta;
      await recordAction(connection, call, {
        action: 'key.created',
        organizationId: key.organizationId,
        subject: keyId,
        details: { userId, name, scopes: granted, limit, rateLimit, jobsMax },
      });
      return toData(formatNewKey(key));
    },
  }),

  setKeyLimit: defineEndpoint({
    route: 'PUT /api/admin/v1/keys/:keyId/limit',
    summary: 'Set limits of an API key; null removes a limit, and an omitted one stays',
    request: {
      params: z.object({ keyId: pathId('key') }),
      body: requireChange(z.strictObject({ ...operatorFields, ...keyLimitFields })),
      example: { ...exampleOperatorFields, limit: { credits: 500, per: 'month' }, rateLimit: 120 },
    },
    response: dataSchema(keyMeta),
    errors: ['NOT_FOUND'],
    async handle({ params: { keyId }, ...call }, { pool, config }) {
      const { actor: _actor, reason: _reason, ...limits } = call.body;
      const updatedKey = await pool.transaction(async (connection) => {
        const change = { ...limits, keyId, userId: null, actingKeyId: null };
        const changedKey = await createKeys(connection, config.KEY_PEPPER).setLimits(change);
        const { limit, rateLimit, jobsMax } = changedKey.meta;
        await recordAction(connection, call, {
          action: 'key.limit_set',
          organizationId: changedKey.organizationId,
          subject: keyId,
          details: { limit, rateLimit, jobsMax },
        });
        return changedKey.meta;
      });
      return toData(updatedKey);
    },
  }),

  revokeKey: defineEndpoint({
    route: 'POST /api/admin/v1/keys/:keyId/revoke',
    summary: 'Revoke an API key',
    request: { params: z.object({ keyId: pathId('key') }), body: operatorFieldsBody },
    response: dataSchema(z.object({ keyId: z.string() })),
    errors: ['NOT_FOUND'],
    async handle({ params: { keyId }, ...call }, { pool, config }) {
      await pool.transaction(async (connection) => {
        const keyFunctions = createKeys(connection, config.KEY_PEPPER);
        const organizationId = await keyFunctions.revoke(keyId, null);
        await recordAction(connection, call, {
          action: 'key.revoked',
          organizationId,
          subject: keyId,
        });
      });
      return toData({ keyId });
    },
  }),
});
