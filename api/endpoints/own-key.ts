/** GET /api/v1/key: describes the API key that the request was sent with. */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import { keyBudget } from '../../jobs/ledger-results.ts';
import { role } from '../identity/access.ts';
import { budgetSchema, formatBudget, keyMeta } from '../identity/key-fields.ts';
import { defineEndpoint, section } from './endpoint.ts';

const ownRow = z.object({
  meta: keyMeta,
  organization: z.string(),
  budget: keyBudget.nullable(),
});

const ownKeySchema = keyMeta.extend({
  organizationId: z.string(),
  organizationName: z.string(),
  userId: z.string(),
  role,
  budget: budgetSchema,
});

/** Endpoint that describes the API key of the request. */
export const ownKey = section('API keys', {
  getKey: defineEndpoint({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Get the API key of the request: its owner, scopes and remaining limit',
    answer: ownKeySchema,
    answers: { 200: 'The key.' },
    async handle({ caller }, { pool }) {
      const { keyId, memberId, organizationId, role: roleOfUser } = caller;
      const row = await pool.maybeOne(sql.type(ownRow)`
        SELECT api_key_meta(k) AS meta, o.name AS organization, key_budget(k.id) AS budget
        FROM api_key k JOIN organization o ON o.id = k.organization_id WHERE k.id = ${keyId}`);
      assert(row, 'the authenticated key is missing from the database');
      const { meta, organization: organizationName, budget } = row;
      return {
        ...meta,
        organizationId,
        organizationName,
        userId: memberId,
        role: roleOfUser,
        budget: formatBudget(budget),
      };
    },
  }),
});
