/**
 * Operator endpoints that list stuck jobs and chats, jobs with unknown outcomes, and provider
 * notifications.
 */
import { z } from 'zod';
import { jobCall } from '../../../studio/jobs/job-calls.ts';
import { outcomeCounts, jobWithUnknownOutcome } from '../../../studio/jobs/status-checks.ts';
import { openReservation } from '../../../studio/jobs/stuck-jobs.ts';
import { storedNotification } from '../../../providers/notifications.ts';
import { toResponse } from '../../../domain/json.ts';
import { addOrganizationNames } from '../../../identity/organizations.ts';
import { workflowState } from '../../../executions/workflow-state.ts';
import {
  toData,
  toPage,
  idField,
  listSchema,
  pageLimit,
  pageSchema,
  responseSchema,
} from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const stuckSchema = responseSchema(openReservation)
  .omit({ ownerMissingAt: true, verifying: true, bulkId: true })
  .extend({
    organizationName: z.string(),
    workflow: workflowState.nullable(),
    reasons: z.array(z.string()),
  })
  .meta({ id: 'StuckWork' });

const { index, provider, lateNotificationAt } = responseSchema(jobCall).shape;
const listedCall = z.object({
  index,
  provider,
  state: z.string(),
  operation: z.unknown(),
  lateNotificationAt,
});
const unknownSchema = responseSchema(jobWithUnknownOutcome)
  .extend({
    organizationName: z.string(),
    calls: z.array(listedCall),
  })
  .meta({ id: 'UnknownOutcome' });

/** Schema of a provider notification. */
export const notificationSchema = responseSchema(storedNotification).meta({
  id: 'ProviderNotification',
});

/** Endpoints that list stuck jobs and chats, unknown outcomes, and provider notifications. */
export const outcomes = defineSection('Outcomes', {
  listStuckWork: defineEndpoint({
    route: 'GET /api/admin/v1/stuck',
    summary: 'List stuck jobs and chats, and why they are still open',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        olderThanSeconds: z.coerce.number().int().min(0).max(31_536_000).default(300).meta({
          description:
            'Minimum age of a reservation in seconds. Jobs that are past their deadline, have an unknown outcome or have no workflow are listed at any age.',
        }),
        limit: pageLimit,
      }),
    },
    response: listSchema(stuckSchema),
    async handle({ query: { organizationId, olderThanSeconds, limit } }, { pool, stuckJobs }) {
      const olderThanMs = olderThanSeconds * 1000;
      const stuckWork = await stuckJobs.list({ organizationId, olderThanMs, limit });
      const responses = stuckWork.map((row) =>
        stuckSchema.omit({ organizationName: true }).parse(toResponse(row)),
      );
      return toData(await addOrganizationNames(pool, responses));
    },
  }),

  listUnknownOutcomes: defineEndpoint({
    route: 'GET /api/admin/v1/unknown-outcomes',
    summary: 'List jobs that were released before the provider reported an outcome, newest first',
    request: {
      query: z.strictObject({
        limit: pageLimit,
        cursor: idField('job').optional(),
      }),
    },
    response: pageSchema(unknownSchema).extend({ counts: outcomeCounts }),
    async handle({ query: { limit, cursor } }, services) {
      const rows = await services.unknownOutcomes.list({ beforeId: cursor, limit: limit + 1 });
      const page = toPage(rows, {
        limit,
        cursor: 'jobId',
        show: ({ calls, ...row }) => ({
          ...toResponse(row),
          calls: calls.map((call) => listedCall.parse(toResponse(call))),
        }),
      });
      const data = await addOrganizationNames(services.pool, page.data);
      return { ...page, data, counts: await services.unknownOutcomes.counts() };
    },
  }),

  listNotifications: defineEndpoint({
    route: 'GET /api/admin/v1/notifications',
    summary: 'List provider notifications, newest first',
    request: {
      query: z.strictObject({
        state: notificationSchema.shape.state.optional(),
        limit: pageLimit,
      }),
    },
    response: listSchema(notificationSchema),
    handle: async ({ query: { state, limit } }, { inbox }) =>
      toData((await inbox.list({ state, limit })).map(toResponse)),
  }),
});
