/** Operator endpoints for the users of an organization. */
import { z } from 'zod';
import { toResponse } from '../../../domain/json.ts';
import { roleSchema } from '../../../identity/access.ts';
import {
  createUser,
  listUsers,
  userRecord,
  readUser,
  readOrganization,
} from '../../../identity/organizations.ts';
import { recordAction } from '../../../identity/operators.ts';
import { plainTextSchema } from '../../../identity/keys.ts';
import {
  responseSchema,
  operatorFields,
  exampleOperatorFields,
  toData,
  listSchema,
  dataSchema,
  pathId,
} from '../fields.ts';
import { defineCreation } from '../creation.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const path = '/api/admin/v1/organizations';
const params = z.object({ organizationId: pathId('organization') });

const user = responseSchema(userRecord).meta({ id: 'User' });

/** Maximum number of users in the list, which begins with the oldest. */
const usersShownMax = 1000;

/** Endpoints that create and list the users of an organization. */
export const users = defineSection('Organizations', {
  createUser: defineCreation({
    route: `POST ${path}/:organizationId/users`,
    summary: 'Create a user',
    request: {
      params,
      body: z.strictObject({
        ...operatorFields,
        name: plainTextSchema(200),
        role: roleSchema.default('member'),
      }),
      example: { ...exampleOperatorFields, name: 'Ann', role: 'viewer' },
    },
    response: dataSchema(user),
    created: 'The user.',
    errors: ['NOT_FOUND'],
    async create({ params: { organizationId }, ...call }, _services, connection) {
      const { name, role: userRole } = call.body;
      const userId = await createUser(connection, { organizationId, name, role: userRole });
      await recordAction(connection, call, {
        action: 'user.created',
        organizationId,
        subject: userId,
        details: { name, role: userRole },
      });
      return toData(toResponse(await readUser(connection, userId)));
    },
  }),

  listUsers: defineEndpoint({
    route: `GET ${path}/:organizationId/users`,
    summary: 'List the users of an organization, oldest first',
    request: { params },
    response: listSchema(user),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId } }, { pool }) {
      await readOrganization(pool, organizationId);
      const listed = await listUsers(pool, organizationId, usersShownMax);
      return toData(listed.map(toResponse));
    },
  }),
});
