/** Operator endpoints that list providers with recent figures, and pause and resume them. */
import { z } from 'zod';
import { requestCheck } from '../../../jobs/records/job-owner.ts';
import {
  pauseProvider,
  resumeProvider,
  type ProviderState,
  type ProviderPauses,
} from '../../../providers/provider-pauses.ts';
import type { ProviderFigures } from '../../../providers/provider-figures.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/json.ts';
import type { Composition } from '../../composition.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { auditFieldsBody, toData, listSchema, dataSchema, time } from '../fields.ts';
import { defineEndpoint, section } from '../endpoint.ts';

const path = '/api/admin/v1/providers';
const request = { params: z.object({ provider: z.string() }), body: auditFieldsBody };

const providerSchema = z
  .object({
    provider: z.string(),
    paused: z.object({ since: time, actor: z.string(), reason: z.string() }).nullable(),
    waiting: z
      .int()
      .meta({ description: 'Number of calls that are waiting for the pause to end.' }),
    open: z.int().meta({ description: 'Number of calls that were sent and have not ended.' }),
  })
  .meta({ id: 'Provider' });

function formatProvider({ paused, ...line }: ProviderState): z.infer<typeof providerSchema> {
  if (!paused) return { ...line, paused };
  const { sinceMs, actor, reason } = paused;
  return { ...line, paused: { since: isoTime(sinceMs), actor, reason } };
}

async function findProvider(pauses: ProviderPauses, provider: string): Promise<ProviderState> {
  const line = (await pauses.list()).find(({ provider: name }) => name === provider);
  if (!line) throw new GatewayError('NOT_FOUND', 'No such provider.');
  return line;
}

const signalBatchSize = 20;

/**
 * Signals waiting jobs, 20 at a time. A job that misses the signal checks by itself within a
 * minute.
 */
async function signalWaitingJobs(
  { client, logger }: Pick<Composition, 'client' | 'logger'>,
  jobIds: readonly string[],
): Promise<void> {
  for (let next = 0; next < jobIds.length; next += signalBatchSize) {
    const batch = jobIds.slice(next, next + signalBatchSize);
    await Promise.all(
      batch.map((jobId) =>
        requestCheck(client, jobId).catch((error: unknown) => {
          logger.warn({ error, jobId }, 'provider.resume_not_signaled');
        }),
      ),
    );
  }
}

const recentMinutes = 15;
const trendMinutes = 60;
const trendIntervals = 12;
const trendIndexes = [...Array<undefined>(trendIntervals).keys()];

const figures = z.object({
  calls: z.int(),
  failed: z.int().meta({
    description:
      'Calls that failed, received no response, or were rejected for a reason other than their input.',
  }),
  medianSeconds: z.number().nullable(),
  slowSeconds: z.number().nullable().meta({ description: 'The 95th percentile.' }),
});

const providerWithFigures = providerSchema
  .extend({
    recent: figures.meta({
      description: `Calls that have ended, for jobs accepted in the last ${recentMinutes} minutes. A call that switched to a fallback provider counts for the fallback provider.`,
    }),
    trend: z.array(figures).meta({
      description: `The same figures for every ${trendMinutes / trendIntervals} minutes of the last ${trendMinutes} minutes, oldest first.`,
    }),
  })
  .meta({ id: 'ProviderWithFigures' });

const noCalls = { calls: 0, failed: 0, medianSeconds: null, slowSeconds: null };

/** Returns the figures of a provider for one interval of the trend. */
function findFigures(rows: readonly ProviderFigures[], provider: string, step: number) {
  return figures.parse(
    rows.find((row) => row.provider === provider && row.step === step) ?? noCalls,
  );
}

/** Endpoints that list, pause and resume providers. */
export const providers = section('Providers', {
  listProviders: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List the providers, with their pauses and recent figures',
    answer: listSchema(providerWithFigures),
    async handle(_, { pauses, readFigures }) {
      const [lines, recent, trend] = await Promise.all([
        pauses.list(),
        readFigures({ minutes: recentMinutes, steps: 1 }),
        readFigures({ minutes: trendMinutes, steps: trendIntervals }),
      ]);
      return toData(
        lines.map((line) => ({
          ...formatProvider(line),
          recent: findFigures(recent, line.provider, 0),
          trend: trendIndexes.map((step) => findFigures(trend, line.provider, step)),
        })),
      );
    },
  }),

  pauseProvider: defineEndpoint({
    route: `POST ${path}/:provider/pause`,
    summary: 'Pause a provider: no new calls are sent to it',
    request,
    answer: dataSchema(providerSchema),
    errors: ['NOT_FOUND'],
    async handle({ params, ...write }, { pool, pauses }) {
      const { provider } = await findProvider(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await pauseProvider(connection, { ...write.body, provider }))) return;
        await recordAction(connection, write, { action: 'provider.paused', subject: provider });
      });
      return toData(formatProvider(await findProvider(pauses, provider)));
    },
  }),

  resumeProvider: defineEndpoint({
    route: `POST ${path}/:provider/resume`,
    summary: 'Resume a provider: its waiting jobs continue',
    request,
    answer: dataSchema(
      providerSchema.extend({
        signaled: z
          .int()
          .meta({ description: 'Number of waiting jobs that receive a signal to continue.' }),
      }),
    ),
    errors: ['NOT_FOUND'],
    async handle({ params, ...write }, { pool, pauses, client, logger }) {
      const { provider } = await findProvider(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await resumeProvider(connection, provider))) return;
        await recordAction(connection, write, { action: 'provider.resumed', subject: provider });
      });
      const waiting = await pauses.listWaitingJobs(provider);
      void signalWaitingJobs({ client, logger }, waiting);
      return toData({
        ...formatProvider(await findProvider(pauses, provider)),
        signaled: waiting.length,
      });
    },
  }),
});
