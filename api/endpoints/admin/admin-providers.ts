/** Operator endpoints that list providers with recent statistics, and pause and resume them. */
import { z } from 'zod';
import { requestCheck } from '../../../studio/jobs/job-execution.ts';
import {
  pauseProvider,
  resumeProvider,
  type ProviderState,
  type ProviderPauses,
} from '../../../providers/provider-pauses.ts';
import {
  figuresMinutes,
  figuresSteps,
  type ProviderFigures,
} from '../../../providers/provider-figures.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/json.ts';
import type { Composition } from '../../composition.ts';
import { recordAction } from '../../../identity/operators.ts';
import { operatorFieldsBody, toData, listSchema, dataSchema, time } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const path = '/api/admin/v1/providers';
const request = { params: z.object({ provider: z.string() }), body: operatorFieldsBody };

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

function formatProvider({ paused, ...fields }: ProviderState): z.infer<typeof providerSchema> {
  if (!paused) return { ...fields, paused };
  const { sinceMs, actor, reason } = paused;
  return { ...fields, paused: { since: isoTime(sinceMs), actor, reason } };
}

async function findProvider(pauses: ProviderPauses, provider: string): Promise<ProviderState> {
  const state = (await pauses.list()).find(({ provider: name }) => name === provider);
  if (!state) throw new GatewayError('NOT_FOUND', 'No such provider.');
  return state;
}

/**
 * Signals waiting jobs to continue. A job that misses its signal checks by itself, within a minute,
 * whether the provider was resumed.
 */
async function signalWaitingJobs(
  { client, logger }: Pick<Composition, 'client' | 'logger'>,
  jobIds: readonly string[],
): Promise<void> {
  try {
    for (const jobId of jobIds) await requestCheck(client, jobId);
  } catch (error) {
    logger.warn({ error }, 'provider.resume_not_signaled');
  }
}

const trendIndexes = [...Array<undefined>(figuresSteps).keys()];

const figures = z.object({
  calls: z.int(),
  failed: z.int().meta({
    description:
      'Number of calls that failed, received no response or were not accepted. Calls whose input was rejected do not count.',
  }),
  medianSeconds: z.number().nullable().meta({
    description:
      'Median seconds from sending a call of a completed job until it was known to have ended; null if there is none.',
  }),
  slowSeconds: z.number().nullable().meta({
    description: '95th percentile of the time whose median is `medianSeconds`.',
  }),
});

const providerWithFigures = providerSchema
  .extend({
    recent: figures.meta({
      description: `Statistics of the calls of jobs that were accepted in the last ${figuresMinutes} minutes and have ended. A call that switched to a fallback provider counts for the fallback provider.`,
    }),
    trend: z.array(figures).meta({
      description: `Statistics for the same time in intervals of ${figuresMinutes / figuresSteps} minutes, oldest first.`,
    }),
  })
  .meta({ id: 'ProviderWithFigures' });

const noCalls = { calls: 0, failed: 0, medianSeconds: null, slowSeconds: null };

/** Returns a provider's statistics for an interval, or for the hour if `step` is null; zeros if it had no calls. */
function findFigures(rows: readonly ProviderFigures[], provider: string, step: number | null) {
  return figures.parse(
    rows.find((row) => row.provider === provider && row.step === step) ?? noCalls,
  );
}

/** Endpoints that list, pause and resume providers. */
export const providers = defineSection('Providers', {
  listProviders: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List the providers, their pauses and the statistics of their recent calls',
    response: listSchema(providerWithFigures),
    async handle(_, { pauses, readFigures }) {
      const [states, rows] = await Promise.all([pauses.list(), readFigures()]);
      return toData(
        states.map((state) => ({
          ...formatProvider(state),
          recent: findFigures(rows, state.provider, null),
          trend: trendIndexes.map((step) => findFigures(rows, state.provider, step)),
        })),
      );
    },
  }),

  pauseProvider: defineEndpoint({
    route: `POST ${path}/:provider/pause`,
    summary: 'Pause a provider: no new calls are sent to it',
    request,
    response: dataSchema(providerSchema),
    errors: ['NOT_FOUND'],
    async handle({ params, ...call }, { pool, pauses }) {
      const { provider } = await findProvider(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await pauseProvider(connection, { ...call.body, provider }))) return;
        await recordAction(connection, call, { action: 'provider.paused', subject: provider });
      });
      return toData(formatProvider(await findProvider(pauses, provider)));
    },
  }),

  resumeProvider: defineEndpoint({
    route: `POST ${path}/:provider/resume`,
    summary: 'Resume a provider: its waiting jobs continue',
    request,
    response: dataSchema(
      providerSchema.extend({
        signaled: z
          .int()
          .meta({ description: 'Number of waiting jobs that receive a signal to continue.' }),
      }),
    ),
    errors: ['NOT_FOUND'],
    async handle({ params, ...call }, { pool, pauses, client, logger }) {
      const { provider } = await findProvider(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await resumeProvider(connection, provider))) return;
        await recordAction(connection, call, { action: 'provider.resumed', subject: provider });
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
