/** Operator endpoint with the numbers that show whether anything is wrong. */
import { z } from 'zod';
import { creditsFromMicro } from '../../../domain/credits.ts';
import type { Config } from '../../../platform/config.ts';
import { findAttention } from '../../../process/attention.ts';
import { dataSchema, toData } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const seconds = z.number().meta({ description: 'Seconds.' });
const attentionSchema = z.object({
  alert: z
    .string()
    .meta({ description: 'Alert rule with the same condition.', example: 'JobsOverdue' }),
  severity: z.enum(['page', 'ticket']),
  message: z.string(),
  runbook: z.string().meta({ description: 'Page in docs/runbooks.' }),
  runbookUrl: z.url().nullable().meta({
    description:
      'Address of the runbook: `RUNBOOKS_URL` and the page. Null if `RUNBOOKS_URL` is not set.',
  }),
});
const overviewSchema = z
  .object({
    attention: z.array(attentionSchema).meta({
      description:
        'Conditions of alert rules that are true now, those for a page first. Only rules that the database and Temporal show; Prometheus evaluates all.',
    }),
    jobs: z.object({
      open: z.int(),
      overdue: z.int().meta({ description: 'Open jobs whose deadline has passed.' }),
      verifying: z.int().meta({ description: 'Open jobs whose outcome is unknown.' }),
      unknown: z
        .int()
        .meta({ description: 'Jobs that were released before the provider reported an outcome.' }),
      unknownLastHour: z.int(),
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
      failing: z
        .int()
        .meta({ description: 'Webhooks with a failed delivery attempt in the last hour.' }),
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
    async handle(_, { gatewayState, ledgerReads, unknownOutcomes, config }) {
      const [open, counts, unknown, spent, chatProviders, failures, audits, queues] =
        await Promise.all([
          gatewayState.openReservations(),
          gatewayState.openCounts(),
          unknownOutcomes.counts(),
          gatewayState.spentToday(),
          gatewayState.chatProviders(),
          gatewayState.webhookFailures(),
          ledgerReads.lastAudits(),
          gatewayState.queues().catch(() => null),
        ]);
      const describe = (kind: 'studio' | 'chat') => {
        const row = open.find((candidate) => candidate.kind === kind);
        return { open: row?.count ?? 0, oldestSeconds: row?.ageSeconds ?? 0 };
      };
      const chats = describe('chat');
      const attention = findAttention({
        counts,
        chatAgeSeconds: chats.oldestSeconds,
        unknownLastHour: unknown.releasedLastHour,
        webhooks: failures,
        audits,
        queues,
      });
      const runbooks = config.RUNBOOKS_URL?.replace(/(?<!\/)\/+$/, '');
      return toData({
        attention: attention.map((condition) => ({
          ...condition,
          runbookUrl: runbooks === undefined ? null : `${runbooks}/${condition.runbook}`,
        })),
        jobs: {
          ...describe('studio'),
          overdue: counts.jobsOverdue,
          verifying: counts.jobsVerifying,
          unknown: unknown.released,
          unknownLastHour: unknown.releasedLastHour,
        },
        chats,
        bulks: {
          open: counts.bulksOpen,
          paused: counts.bulksPaused,
          hanging: counts.bulksHanging,
        },
        webhooks: {
          open: counts.callerWebhooksOpen,
          oldestSeconds: counts.callerWebhookAgeSeconds,
          failing: failures.failing,
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
