/** Operators: stuck jobs with the reason, unknown outcomes, and notifications of providers. */
import { z } from 'zod';
import type { UnknownOutcome } from '../../../jobs/records/call-outcomes.ts';
import type { StuckLine } from '../../../jobs/records/stuck-jobs.ts';
import { keptNotification } from '../../../providers/notifications.ts';
import { creditsFromMicro } from '../../../domain/credits.ts';
import { isoTime, toResponse } from '../../../domain/json.ts';
import { withNames } from '../../identity/organizations.ts';
import {
  found,
  foundPage,
  idField,
  listOf,
  pageLimit,
  pageOf,
  responseSchema,
  time,
} from '../fields.ts';
import { defineEndpoint, section } from '../endpoint.ts';

const stuckSchema = z
  .object({
    id: z.string(),
    kind: z.enum(['studio', 'chat']),
    organizationId: z.string(),
    organizationName: z.string(),
    type: z.string().nullable(),
    model: z.string().nullable(),
    credits: z.number(),
    createdAt: time,
    deadlineAt: time.nullable(),
    workflow: z.object({ state: z.string(), status: z.string().nullable() }).nullable(),
    reasons: z.array(z.string()),
  })
  .meta({ id: 'StuckWork' });

function stuckView(line: StuckLine & { organizationName: string }): z.infer<typeof stuckSchema> {
  const { reserved, owner: workflow, ...rest } = toResponse(line);
  return stuckSchema.parse({ ...rest, credits: creditsFromMicro(reserved), workflow });
}

const unknownSchema = z
  .object({
    jobId: z.string(),
    organizationId: z.string(),
    organizationName: z.string(),
    type: z.string(),
    model: z.string().nullable(),
    errorCode: z.string(),
    credits: z.number(),
    releasedAt: time,
    calls: z.array(
      z.object({
        index: z.int(),
        provider: z.string(),
        state: z.string(),
        operation: z.unknown(),
        lateNotificationAt: time.nullable(),
      }),
    ),
  })
  .meta({ id: 'UnknownOutcome' });

function unknownView(
  line: UnknownOutcome,
): Omit<z.infer<typeof unknownSchema>, 'organizationName'> {
  const { id, reserved, completedAtMs, calls, ...rest } = line;
  return {
    jobId: id,
    ...rest,
    credits: creditsFromMicro(reserved),
    releasedAt: isoTime(completedAtMs),
    calls: calls.map(toResponse),
  };
}

/** Schema of a provider notification. */
export const notificationSchema = responseSchema(keptNotification).meta({
  id: 'ProviderNotification',
});

/** Endpoints that list stuck jobs, unknown outcomes and notifications. */
export const outcomes = section('Outcomes', {
  listStuckWork: defineEndpoint({
    route: 'GET /api/admin/v1/stuck',
    summary: 'List stuck jobs with the reason',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        olderThanSeconds: z.coerce.number().int().min(0).max(31_536_000).default(300).meta({
          description:
            'Only work older than this, in seconds. Work with a passed deadline, an unknown outcome or a lost workflow is always listed.',
        }),
        limit: pageLimit,
      }),
    },
    answer: listOf(stuckSchema),
    async handle({ query: { organizationId, olderThanSeconds, limit } }, { pool, stuckJobs }) {
      const olderThanMs = olderThanSeconds * 1000;
      const lines = await stuckJobs.list({ organizationId, olderThanMs, limit });
      return found((await withNames(pool, lines)).map(stuckView));
    },
  }),

  listUnknownOutcomes: defineEndpoint({
    route: 'GET /api/admin/v1/unknown-outcomes',
    summary:
      'List jobs whose credits were released before the provider reported an outcome, newest first',
    request: {
      query: z.strictObject({
        limit: pageLimit,
        cursor: idField('job').optional(),
      }),
    },
    answer: pageOf(unknownSchema).extend({
      counts: z.object({ verifying: z.int(), released: z.int() }),
    }),
    async handle({ query: { limit, cursor } }, services) {
      const rows = await services.outcomes.list({ beforeId: cursor, limit: limit + 1 });
      const page = foundPage(rows, { limit, cursor: 'id', show: unknownView });
      const data = await withNames(services.pool, page.data);
      return { ...page, data, counts: await services.outcomes.counts() };
    },
  }),

  listNotifications: defineEndpoint({
    route: 'GET /api/admin/v1/notifications',
    summary: 'List the notifications of providers, newest first',
    request: {
      query: z.strictObject({
        state: notificationSchema.shape.state.optional(),
        limit: pageLimit,
      }),
    },
    answer: listOf(notificationSchema),
    handle: async ({ query: { state, limit } }, { inbox }) =>
      found((await inbox.list({ state, limit })).map(toResponse)),
  }),
});
