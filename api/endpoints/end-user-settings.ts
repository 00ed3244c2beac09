/** /api/v1/end-users: sets and shows the limits of end users. */
import { z } from 'zod';
import { allEndUsers, endUserSchema } from '../../domain/end-users.ts';
import { GatewayError } from '../../domain/errors.ts';
import { budgetSchema, formatBudget, keyLimit, rateLimit } from '../../identity/keys.ts';
import { inheritedField, type LimitedEndUser } from '../../ledger/end-user-limits.ts';
import { dataSchema, pageSchema, requireChange, toData, toPage } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

const path = '/api/v1/end-users';
const endUserId = z.union([endUserSchema, z.literal(allEndUsers)], 'No such end user.');
const params = z.object({ endUser: endUserId });
const viewerError = 'A viewer may not change the limits of end users.';

const resource = z
  .object({
    endUser: z.string(),
    suspended: z.boolean(),
    limit: keyLimit.nullable().meta({ description: 'Spending limit; null if it has none.' }),
    rateLimit: rateLimit
      .nullable()
      .meta({ description: 'Jobs and chats per minute; null if only those of its key limit it.' }),
    inherited: z.array(inheritedField.meta({ id: 'InheritedField' })).meta({
      description:
        'Fields whose values are those of `*`, because the end user has none of its own.',
    }),
    budget: budgetSchema,
  })
  .meta({ id: 'EndUser' });

const show = ({ budget, ...shown }: LimitedEndUser): z.infer<typeof resource> => ({
  ...shown,
  budget: formatBudget(budget),
});

/** Endpoints of end users. */
export const endUserSettings = defineSection('End users', {
  listEndUsers: defineEndpoint({
    route: `GET ${path}`,
    scope: 'usage:read',
    summary: 'List end users by id',
    description:
      'Lists the end users that have limits of their own, and those for whom jobs or chats were reserved.',
    request: {
      query: z.strictObject({
        limit: z.coerce.number().int().min(1).max(200).default(50),
        cursor: endUserSchema
          .optional()
          .meta({ description: '`nextCursor` of the previous page.' }),
      }),
    },
    response: pageSchema(resource),
    async handle({ caller: { organizationId }, query: { limit, cursor = '' } }, { endUserLimits }) {
      const rows = await endUserLimits.list(organizationId, cursor, limit + 1);
      return toPage(rows, { limit, cursor: 'endUser', show });
    },
  }),

  getEndUser: defineEndpoint({
    route: `GET ${path}/:endUser`,
    scope: 'usage:read',
    summary: 'Get the limits of an end user, and what is used of them',
    description: `\`${allEndUsers}\` names the limits of all end users without limits of their own.`,
    request: { params },
    response: dataSchema(resource),
    errors: ['NOT_FOUND'],
    handle: async ({ caller: { organizationId }, params: { endUser } }, { endUserLimits }) =>
      toData(show(await endUserLimits.read(organizationId, endUser))),
  }),

  setEndUser: defineEndpoint({
    route: `PUT ${path}/:endUser`,
    scope: 'keys:write',
    viewerError,
    summary: 'Set the limits of an end user, or suspend it',
    description:
      '`limit` is the number of credits that jobs and chats for this end user may spend per UTC day, week or month, or in total; what is spent already ' +
      `counts. \`rateLimit\` is the number of jobs and chats per minute. Null means no limit. A field that you omit stays: it keeps its value, or follows that of \`${allEndUsers}\`, which sets the limits of each end user without limits of its own.`,
    request: {
      params,
      body: requireChange(
        z.strictObject({
          limit: keyLimit.nullish(),
          rateLimit: rateLimit.nullish(),
          suspended: z.boolean().optional().meta({
            description: 'True to reject all jobs and chats for this end user.',
          }),
        }),
      ),
      example: { limit: { credits: 30, per: 'month' }, rateLimit: 10 },
    },
    response: dataSchema(resource),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { endUser }, body }, { endUserLimits }) {
      const { organizationId, keyId: actingKeyId } = caller;
      const change = { ...body, organizationId, endUser, actingKeyId };
      return toData(show(await endUserLimits.set(change)));
    },
  }),

  deleteEndUser: defineEndpoint({
    route: `DELETE ${path}/:endUser`,
    scope: 'keys:write',
    viewerError,
    summary: 'Remove the limits of an end user',
    description: `The limits of \`${allEndUsers}\` then apply. Jobs, chats and what was spent stay.`,
    request: { params },
    response: z.object({ success: z.literal(true), endUser: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { endUser } }, { endUserLimits }) {
      const { organizationId, keyId: actingKeyId } = caller;
      if (!(await endUserLimits.remove({ organizationId, endUser, actingKeyId })))
        throw new GatewayError('NOT_FOUND', 'This end user has no limits of its own.');
      return { success: true as const, endUser };
    },
  }),
});
