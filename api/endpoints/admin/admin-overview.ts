/** Operator endpoint with the numbers that show whether anything is wrong. */
import { z } from 'zod';
import { creditsFromMicro } from '../../../domain/credits.ts';
import type { Config } from '../../../platform/config.ts';
import { dataSchema, toData } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const seconds = z.number().meta({ description: 'Seconds.' });
const overviewSchema = z
  .object({
    jobs: z.object({
      open: z.int(),
      overdue: z.int().meta({ description: 'Open jobs whose deadline has passed.' }),
      verifying: z.int().meta({ description: 'Open jobs whose outcome is unknown.' }),
      unknown: z
        .int()
        .meta({ description: 'Jobs that were released before the provider reported an outcome.' }),
      oldestSeconds: seconds,
    }),
    chats: z.object({ open: z.int(), oldestSeconds: seconds }),
    bulks: z.object({
      open: z.int(),
      paused: z.int(),
      hanging: z
        .int()
        .meta({ description: 'Bulk jobs whose workflow is missing or was not signaled.' }),
    }),
    webhooks: z.object({
      open: z.int().meta({ description: 'Webhooks of ended jobs that are not delivered yet.' }),
      oldestSeconds: seconds,
    }),
    credits: z.object({
      reserved: z.number(),
      spentToday: z.number().meta({ description: 'Credits that keys have spent since 0:00 UTC.' }),
    }),
    chatProviders: z
      .array(
        z.object({
          provider: z.string(),
          calls: z.int(),
          failed: z.int().meta({ description: 'Chats that were not charged.' }),
          medianSeconds: z.number().nullable(),
        }),
      )
      .meta({ description: 'Chats of the last hour by provider, most failures first.' }),
    queues: z
      .array(
        z.object({
          name: z.string(),
          task: z.string(),
          workers: z.int(),
          backlog: z.int(),
          backlogAgeSeconds: seconds,
        }),
      )
      .nullable()
      .meta({ description: 'Task queues; null if Temporal cannot be reached.' }),
    temporalUiUrl: z
      .url()
      .nullable()
      .meta({ description: 'Workflows in the first Temporal UI of `TEMPORAL_UI_ORIGINS`.' }),
  })
  .meta({ id: 'Overview' });

/** Returns the URL of the list of workflows in the first Temporal UI; null if none is configured. */
export function toTemporalUiUrl({
  TEMPORAL_UI_ORIGINS: [origin],
  TEMPORAL_NAMESPACE: namespace,
}: Pick<Config, 'TEMPORAL_UI_ORIGINS' | 'TEMPORAL_NAMESPACE'>): string | null {
  if (origin === undefined) return null;
  return `${origin}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}

/** Endpoint with the numbers of the whole gateway. */
export const overview = defineSection('Outcomes', {
  getOverview: defineEndpoint({
    route: 'GET /api/admin/v1/overview',
    summary: 'Get the numbers of open work, queues, chat providers and credits',
    response: dataSchema(overviewSchema),
    async handle(_, { gatewayState, outcomes, config }) {
      const [open, counts, unknown, spent, chatProviders, queues] = await Promise.all([
        gatewayState.openReservations(),
        gatewayState.openCounts(),
        outcomes.counts(),
        gatewayState.spentToday(),
        gatewayState.chatProviders(),
        gatewayState.queues().catch(() => null),
      ]);
      const describe = (kind: 'studio' | 'chat') => {
        const row = open.find((candidate) => candidate.kind === kind);
        return { open: row?.count ?? 0, oldestSeconds: row?.ageSeconds ?? 0 };
      };
      return toData({
        jobs: {
          ...describe('studio'),
          overdue: counts.jobsOverdue,
          verifying: counts.jobsVerifying,
          unknown: unknown.released,
        },
        chats: describe('chat'),
        bulks: {
          open: counts.bulksOpen,
          paused: counts.bulksPaused,
          hanging: counts.bulksHanging,
        },
        webhooks: {
          open: counts.callerWebhooksOpen,
          oldestSeconds: counts.callerWebhookAgeSeconds,
        },
        credits: {
          reserved: creditsFromMicro(open.reduce((sum, { amount }) => sum + amount, 0)),
          spentToday: creditsFromMicro(spent.spentMicro),
        },
        chatProviders: [...chatProviders],
        queues: queues && queues.map(({ pollers, ...queue }) => ({ ...queue, workers: pollers })),
        temporalUiUrl: toTemporalUiUrl(config),
      });
    },
  }),
});
