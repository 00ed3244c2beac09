/** Endpoints for operators: their keys, console sessions and recorded actions. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { toResponse, isoTime } from '../../../domain/json.ts';
import {
  recordAction,
  listActions,
  actionRecord,
  createOperator,
  listOperators,
  operatorRecord,
  revokeOperator,
  type Operator,
} from '../../../identity/operators.ts';
import { calculateKeyMac } from '../../../identity/access.ts';
import { parseBearerKey } from '../../middleware/authenticate.ts';
import {
  responseSchema,
  operatorFields,
  operatorFieldsBody,
  exampleOperatorFields,
  toData,
  listSchema,
  dataSchema,
  operatorName,
  pathId,
  time,
  toPage,
  idField,
  pageLimit,
  pageSchema,
} from '../fields.ts';
import { defineCreation } from '../creation.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const path = '/api/admin/v1/operators';
const sessionPath = '/api/admin/v1/session';
/** Maximum number of operators in the list, which has no pages: no deployment should have more. */
const operatorsShownMax = 1000;

const operatorSchema = responseSchema(operatorRecord).meta({ id: 'Operator' });

/**
 * Requires ADMIN_API_KEY, because an operator's key may not manage operators.
 * @throws GatewayError FORBIDDEN
 */
function requireAdminKey({ operatorId }: Operator): void {
  if (operatorId !== null) {
    throw new GatewayError('FORBIDDEN', 'Only ADMIN_API_KEY may create and revoke operators.');
  }
}

/** Schema of a recorded operator action. */
export const actionSchema = responseSchema(actionRecord)
  .extend({ details: z.looseObject({}) })
  .meta({ id: 'Action' });

const operatorEndpoints = defineSection('Operators', {
  getOperator: defineEndpoint({
    route: 'GET /api/admin/v1/operator',
    summary: 'Get the operator whose key sent the request',
    response: dataSchema(
      z.object({
        operatorId: z
          .string()
          .nullable()
          .meta({ description: 'Id of the operator; null if the key is `ADMIN_API_KEY`.' }),
        name: z.string().nullable(),
      }),
    ),
    handle: ({ operator }) => toData(operator),
  }),

  listOperators: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List operators, newest first',
    response: listSchema(operatorSchema),
    handle: async (_, { pool }) =>
      toData((await listOperators(pool, operatorsShownMax)).map(toResponse)),
  }),

  createOperator: defineCreation({
    route: `POST ${path}`,
    summary: 'Create an operator and a key for the operator; requires `ADMIN_API_KEY`',
    request: {
      body: z.strictObject({ ...operatorFields, name: operatorName }),
      example: { ...exampleOperatorFields, name: 'paul' },
    },
    response: dataSchema(operatorSchema.extend({ key: z.string() })),
    created:
      'The operator with its key, which is shown only here, and in the answers to repeated requests with the same Idempotency-Key.',
    errors: ['FORBIDDEN'],
    async create({ operator, ...call }, { config }, connection) {
      requireAdminKey(operator);
      const { name } = call.body;
      const created = await createOperator(connection, config.KEY_PEPPER, name);
      await recordAction(connection, call, {
        action: 'operator.created',
        subject: created.operatorId,
        details: { name },
      });
      return toData(toResponse(created));
    },
  }),

  revokeOperator: defineEndpoint({
    route: `POST ${path}/:operatorId/revoke`,
    summary: 'Revoke the key of an operator; requires `ADMIN_API_KEY`',
    request: { params: z.object({ operatorId: pathId('operator') }), body: operatorFieldsBody },
    response: dataSchema(operatorSchema),
    errors: ['FORBIDDEN', 'NOT_FOUND'],
    async handle({ operator, params: { operatorId }, ...call }, { pool }) {
      requireAdminKey(operator);
      const revokedOperator = await pool.transaction(async (connection) => {
        await recordAction(connection, call, { action: 'operator.revoked', subject: operatorId });
        return revokeOperator(connection, operatorId);
      });
      return toData(toResponse(revokedOperator));
    },
  }),

  beginOperatorSession: defineEndpoint({
    route: `POST ${sessionPath}`,
    summary: 'Sign in to the console',
    description:
      'Sets a cookie (HttpOnly, SameSite=Strict) for a twelve-hour session. The session has the permissions of the key, and ' +
      'works only on the console pages. It ends when the operator signs out or the key is revoked. Actions in the ' +
      'session are recorded with the operator’s name, or with `actor` if the key is `ADMIN_API_KEY`.',
    request: {
      body: z.strictObject({ actor: operatorFields.actor }),
      example: { actor: exampleOperatorFields.actor },
    },
    response: dataSchema(z.object({ expiresAt: time })),
    responses: { 201: 'The session has begun.' },
    async handle({ ctx, body }, { config, operatorSessions }) {
      const key = parseBearerKey(ctx.req);
      if (key === undefined) throw new GatewayError('Unauthorized');
      const operatorMac = calculateKeyMac(key, config.KEY_PEPPER);
      const owner = { operatorMac, name: body.actor };
      const { expiresAtMs } = await operatorSessions.begin(ctx, owner);
      return toData({ expiresAt: isoTime(expiresAtMs) });
    },
  }),

  endOperatorSession: defineEndpoint({
    route: `DELETE ${sessionPath}`,
    summary: 'Sign out of the console',
    response: dataSchema(z.object({})),
    async handle({ ctx }, { operatorSessions }) {
      await operatorSessions.end(ctx);
      return toData({});
    },
  }),
});

const actions = defineSection('Actions', {
  listActions: defineEndpoint({
    route: 'GET /api/admin/v1/actions',
    summary: 'List operators’ actions, newest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        limit: pageLimit,
        cursor: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
      }),
    },
    response: pageSchema(actionSchema),
    async handle({ query: { organizationId, limit, cursor } }, { pool }) {
      const rows = await listActions(pool, { organizationId, beforeId: cursor, limit: limit + 1 });
      return toPage(rows, { limit, cursor: 'id', show: toResponse });
    },
  }),
});

/** Endpoints for operators, their console sessions, and their recorded actions. */
export const operators = [...operatorEndpoints, ...actions];
