/** GET /api/v1/key: describes the API key that sent the request. */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import { keyBudget } from '../../domain/credits.ts';
import { roleSchema } from '../../identity/access.ts';
import { budgetSchema, formatBudget, keyMeta } from '../../identity/keys.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

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
    answer: ownKeySchema,
    answers: { 200: 'The key.' },
    async handle({ caller }, { pool }) {
      const { keyId, memberId, organizationId, role: userRole } = caller;
      const keyRow = await pool.maybeOne(sql.type(keyRowSchema)`
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget
        FROM api_key k JOIN organization o ON o.id = k.organization_id WHERE k.id = ${keyId}`);
      assert(keyRow, 'the authenticated key is missing from the database');
      const { meta, organization: organizationName, budget } = keyRow;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: memberId,
        role: userRole,
        budget: formatBudget(budget),
      };
    },
  }),
});
