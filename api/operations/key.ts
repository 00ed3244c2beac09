/** GET /api/v1/key: who a key is, what it may do, and what is left of its budget. */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { isoTime } from '../../domain/iso-time.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import { role } from '../identity/access.ts';
import { keyMeta } from '../identity/key-fields.ts';
import { time } from './fields.ts';
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
  budget: z
    .object({
      limit: z.number(),
      per: keyBudget.shape.per,
      used: z.number().meta({ description: 'Reserved and charged in this period.' }),
      remaining: z.number(),
      resetsAt: time.nullable().meta({ description: 'Null: it never begins again.' }),
    })
    .nullable()
    .meta({ description: 'Of the `limit`, as it stands, in credits; null: there is none.' }),
});

/** The key itself. */
export const key = section('API keys', {
  getKey: defineOperation({
    route: 'GET /api/v1/key',
    scope: 'any',
    summary: 'Who this key is, what it may do, and what is left of its limit',
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
        budget: budget && {
          limit: creditsFromMicro(budget.limit),
          per: budget.per,
          used: creditsFromMicro(budget.used),
          remaining: creditsFromMicro(Math.max(0, budget.limit - budget.used)),
          resetsAt: isoTime(budget.resetsAtMs),
        },
      };
    },
  }),
});
