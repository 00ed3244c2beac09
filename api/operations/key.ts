/** GET /api/v1/key: who a key is, what it may do, and what is left of its budget. */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import { role } from '../identity/access.ts';
import { budgetSchema, budgetView, keyMeta } from '../identity/key-fields.ts';
import { defineOperation, section } from './operation.ts';

const row = z.object({
  meta: keyMeta,
  organization: z.string(),
  budget: keyBudget.nullable(),
});

const answer = keyMeta.extend({
  organizationId: z.string(),
  organizationName: z.string(),
  userId: z.string(),
  role,
  budget: budgetSchema,
});

/** The key itself. */
export const key = section('API keys', {
  getKey: defineOperation({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Get this key: its owner, its rights, and what is left of its limit',
    answer,
    answers: { 200: 'The key of the request.' },
    async handle({ caller }, { pool }) {
      const { keyId, memberId, organizationId, role: ofUser } = caller;
      const found = await pool.maybeOne(sql.type(row)`
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
