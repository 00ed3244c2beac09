/** Operator endpoints for organizations, their status and their credit limit per six hours. */
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { toResponse } from '../../../domain/json.ts';
import { organizationStatusSchema as status } from '../../../identity/access.ts';
import {
  createOrganization,
  listOrganizations,
  readOrganization,
  setOrganizationLimits,
  setOrganizationStatus,
  setWindowLimit,
  type OrganizationRecord,
} from '../../../identity/organizations.ts';
import { recordAction } from '../../../identity/operators.ts';
import { jobsMax, plainTextSchema, rateLimit } from '../../../identity/keys.ts';
import {
  operatorFields,
  operatorFieldsBody,
  exampleOperatorFields,
  toData,
  toPage,
  idField,
  dataSchema,
  pageLimit,
  pageSchema,
  pathId,
  time,
  requireChange,
} from '../fields.ts';
import { readOrganizationActivity } from '../../../process/gateway-state.ts';
import { defineCreation } from '../creation.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { accountSchema, formatAccount } from '../usage.ts';
import { toTemporalUiUrl } from './admin-overview.ts';

const path = '/api/admin/v1/organizations';
const params = z.object({ organizationId: pathId('organization') });

/** Schema of the limit of Studio credits per six hours. Null means no limit. */
const windowLimit = z.number().min(0).max(1_000_000_000).nullable();
/** Limits of an organization. Null removes a limit, and an omitted one stays. */
const organizationLimits = { rateLimit: rateLimit.nullish(), jobsMax: jobsMax.nullish() };
const toMicroCredits = (credits: number | null): number | null =>
  credits === null ? null : microFromCredits(credits);

const organization = z
  .object({
    organizationId: z.string(),
    name: z.string(),
    status,
    createdAt: time,
    rateLimit: rateLimit.nullable().meta({
      description: 'Requests per minute of all keys. Null if the default limit applies.',
    }),
    jobsMax: jobsMax.nullable().meta({
      description: 'Jobs that may be open at the same time. Null if there is no limit.',
    }),
  })
  .extend(accountSchema.shape)
  .meta({ id: 'Organization' });

const organizationState = organization
  .extend({
    activity: z.object({
      openJobs: z.int(),
      endedJobs: z.int().meta({ description: 'Jobs of the last 24 hours that have ended.' }),
      failedJobs: z.int().meta({ description: 'Jobs of the last 24 hours that failed.' }),
      spentToday: z
        .number()
        .meta({ description: 'Credits that its keys have spent since 0:00 UTC.' }),
      keys: z.int().meta({ description: 'Keys that are neither revoked nor expired.' }),
      temporalUiUrl: z.url().nullable().meta({ description: 'Workflows in the Temporal UI.' }),
    }),
  })
  .meta({ id: 'OrganizationState' });

function formatOrganization(record: OrganizationRecord): z.infer<typeof organization> {
  return organization.parse({ ...toResponse(record), ...formatAccount(record) });
}

const defineStatusEndpoint = (verb: 'suspend' | 'activate', newStatus: z.infer<typeof status>) =>
  defineEndpoint({
    route: `POST ${path}/:organizationId/${verb}`,
    summary: `${verb === 'suspend' ? 'Suspend' : 'Activate'} an organization`,
    request: { params, body: operatorFieldsBody },
    response: dataSchema(organization),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId }, ...call }, { pool }) {
      const action = newStatus === 'active' ? 'organization.activated' : 'organization.suspended';
      await pool.transaction(async (connection) => {
        await setOrganizationStatus(connection, organizationId, newStatus);
        await recordAction(connection, call, { action, organizationId, subject: organizationId });
      });
      return toData(formatOrganization(await readOrganization(pool, organizationId)));
    },
  });

/** Endpoints that manage organizations. */
export const organizations = defineSection('Organizations', {
  createOrganization: defineCreation({
    route: `POST ${path}`,
    summary: 'Create an organization and its owner',
    request: {
      body: z.strictObject({
        ...operatorFields,
        name: plainTextSchema(200),
        windowAllowanceCredits: windowLimit.default(null),
        ...organizationLimits,
      }),
      example: { ...exampleOperatorFields, name: 'Acme', windowAllowanceCredits: 500 },
    },
    response: dataSchema(organization.extend({ ownerId: z.string() })),
    created: 'The organization, and the id of its owner.',
    async create(call, _services, connection) {
      const {
        name,
        windowAllowanceCredits,
        rateLimit: requests = null,
        jobsMax: jobs = null,
      } = call.body;
      const windowLimitMicro = toMicroCredits(windowAllowanceCredits);
      const { organizationId, userId: ownerId } = await createOrganization(connection, {
        name,
        windowLimitMicro,
        rateLimit: requests,
        jobsMax: jobs,
      });
      await recordAction(connection, call, {
        action: 'organization.created',
        organizationId,
        subject: organizationId,
        details: { name, windowAllowanceCredits, rateLimit: requests, jobsMax: jobs },
      });
      const record = await readOrganization(connection, organizationId);
      return toData({ ...formatOrganization(record), ownerId });
    },
  }),

  listOrganizations: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List organizations, newest first',
    request: {
      query: z.strictObject({
        status: status.optional(),
        name: plainTextSchema(200).optional().meta({
          description: 'Return only organizations whose name contains this text. Case is ignored.',
        }),
        limit: pageLimit,
        cursor: idField('organization').optional(),
      }),
    },
    response: pageSchema(organization),
    async handle({ query: { limit, cursor, ...filter } }, { pool }) {
      const rows = await listOrganizations(pool, { ...filter, beforeId: cursor, limit: limit + 1 });
      return toPage(rows, { limit, cursor: 'organizationId', show: formatOrganization });
    },
  }),

  getOrganization: defineEndpoint({
    route: `GET ${path}/:organizationId`,
    summary: 'Get an organization and what it does now',
    request: { params },
    response: dataSchema(organizationState),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId } }, { pool, config }) {
      const record = await readOrganization(pool, organizationId);
      const { spentMicro, ...activity } = await readOrganizationActivity(pool, organizationId);
      const spentToday = creditsFromMicro(spentMicro);
      const temporalUiUrl = toTemporalUiUrl(config);
      return toData({
        ...formatOrganization(record),
        activity: { ...activity, spentToday, temporalUiUrl },
      });
    },
  }),

  suspendOrganization: defineStatusEndpoint('suspend', 'suspended'),
  activateOrganization: defineStatusEndpoint('activate', 'active'),

  setWindowAllowance: defineEndpoint({
    route: `PUT ${path}/:organizationId/window-allowance`,
    summary: 'Set the Studio credits of an organization per six hours; null removes the limit',
    request: {
      params,
      body: z.strictObject({ ...operatorFields, credits: windowLimit }),
      example: { ...exampleOperatorFields, credits: 500 },
    },
    response: dataSchema(organization),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId }, ...call }, { pool }) {
      const { credits } = call.body;
      await pool.transaction(async (connection) => {
        await setWindowLimit(connection, organizationId, toMicroCredits(credits));
        await recordAction(connection, call, {
          action: 'window_allowance.set',
          organizationId,
          subject: organizationId,
          details: { credits },
        });
      });
      return toData(formatOrganization(await readOrganization(pool, organizationId)));
    },
  }),

  setOrganizationLimits: defineEndpoint({
    route: `PUT ${path}/:organizationId/limits`,
    summary: 'Set how many requests per minute and open jobs an organization may have',
    description:
      '`rateLimit` is the number of requests per minute of all its keys, `jobsMax` that of jobs that may be open at the same time. Null removes a ' +
      'limit, and a limit that you omit stays.',
    request: {
      params,
      body: requireChange(z.strictObject({ ...operatorFields, ...organizationLimits })),
      example: { ...exampleOperatorFields, rateLimit: 1200, jobsMax: 50 },
    },
    response: dataSchema(organization),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId }, ...call }, { pool }) {
      const { actor: _actor, reason: _reason, ...limits } = call.body;
      const record = await pool.transaction(async (connection) => {
        await setOrganizationLimits(connection, organizationId, limits);
        const changed = await readOrganization(connection, organizationId);
        await recordAction(connection, call, {
          action: 'organization.limits_set',
          organizationId,
          subject: organizationId,
          details: { rateLimit: changed.rateLimit, jobsMax: changed.jobsMax },
        });
        return changed;
      });
      return toData(formatOrganization(record));
    },
  }),
});
