/** Operators and their keys: made and revoked by who holds the admin key of the deployment. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTimes } from '../../../domain/iso-time.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import {
  createOperator,
  listOperators,
  readOperator,
  revokeOperator,
  type Operator,
} from '../../identity/operators.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import {
  authority,
  bareWrite,
  exampleAuthority,
  found,
  listOf,
  oneOf,
  operatorName,
  pathId,
  time,
} from '../fields.ts';
import { defineOperation, section } from '../operation.ts';

const path = '/api/admin/v1/operators';
/** A deployment has few. */
const operatorsShownMax = 1000;

const operatorSchema = z
  .object({
    operatorId: z.string(),
    name: z.string(),
    keyPrefix: z.string(),
    createdAt: time,
    revokedAt: time.nullable(),
    lastUsedAt: time.nullable(),
  })
  .meta({ id: 'Operator' });

/** A stolen key must not make another. */
function needAdminKey({ operatorId }: Operator): void {
  if (operatorId !== null) {
    throw new GatewayError('FORBIDDEN', 'Only ADMIN_API_KEY makes and revokes operators.');
  }
}

/** Who am I, list, create, revoke. */
export const operators = section('Operators', {
  getOperator: defineOperation({
    route: 'GET /api/admin/v1/operator',
    summary: 'Get the operator of this key',
    answer: oneOf(
      z.object({
        operatorId: z.string().nullable().meta({ description: 'Null: it is `ADMIN_API_KEY`.' }),
        name: z.string().nullable(),
      }),
    ),
    handle: ({ operator }) => found(operator),
  }),

  listOperators: defineOperation({
    route: `GET ${path}`,
    summary: 'List operators, newest first',
    answer: listOf(operatorSchema),
    handle: async (_, { pool }) =>
      found((await listOperators(pool, operatorsShownMax)).map(isoTimes)),
  }),

  createOperator: defineOperation({
    route: `POST ${path}`,
    summary: 'Create an operator with a key; only with the admin key',
    request: {
      body: bodySchema(z.strictObject({ ...authority, name: operatorName })),
      example: { ...exampleAuthority, name: 'paul' },
    },
    answer: oneOf(operatorSchema.extend({ key: z.string() })),
    answers: { 200: 'The key. It is shown once.' },
    errors: ['FORBIDDEN'],
    async handle({ ctx, operator, body: { name, ...by }, requestId }, { pool, config }) {
      needAdminKey(operator);
      const made = await pool.transaction(async (connection) => {
        const { operatorId, key } = await createOperator(connection, config.KEY_PEPPER, name);
        await recordAction(connection, {
          ...by,
          requestId,
          action: 'operator.created',
          organizationId: null,
          subject: operatorId,
          details: { name },
        });
        return { ...(await readOperator(connection, operatorId)), key };
      });
      ctx.set('Cache-Control', 'no-store');
      return found(isoTimes(made));
    },
  }),

  revokeOperator: defineOperation({
    route: `POST ${path}/:operatorId/revoke`,
    summary: 'Revoke the key of an operator; only with the admin key',
    request: { params: z.object({ operatorId: pathId('operator') }), body: bareWrite },
    answer: oneOf(operatorSchema),
    errors: ['FORBIDDEN', 'NOT_FOUND'],
    async handle({ operator, params: { operatorId }, body, requestId }, { pool }) {
      needAdminKey(operator);
      await pool.transaction(async (connection) => {
        await revokeOperator(connection, operatorId);
        await recordAction(connection, {
          ...body,
          requestId,
          action: 'operator.revoked',
          organizationId: null,
          subject: operatorId,
        });
      });
      return found(isoTimes(await readOperator(pool, operatorId)));
    },
  }),
});
