/** Operators: providers, paused and resumed. */
import { z } from 'zod';
import { askToCheck } from '../../../jobs/records/job-owner.ts';
import {
  pauseProvider,
  resumeProvider,
  type ProviderLine,
  type ProviderPauses,
} from '../../../providers/provider-overview.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/json.ts';
import type { Composition } from '../../composition.ts';
import { recordAction } from '../../identity/operators.ts';
import { bareWrite, found, listOf, oneOf, time } from '../fields.ts';
import { defineOperation, section } from '../operation.ts';

const path = '/api/admin/v1/providers';
const request = { params: z.object({ provider: z.string() }), body: bareWrite };

const providerSchema = z
  .object({
    provider: z.string(),
    paused: z.object({ since: time, actor: z.string(), reason: z.string() }).nullable(),
    waiting: z.int().meta({ description: 'Calls that wait for the end of the pause.' }),
    open: z.int().meta({ description: 'Calls that it has and that are not over.' }),
  })
  .meta({ id: 'Provider' });

function providerView({ paused, ...line }: ProviderLine): z.infer<typeof providerSchema> {
  if (!paused) return { ...line, paused };
  const { sinceMs, actor, reason } = paused;
  return { ...line, paused: { since: isoTime(sinceMs), actor, reason } };
}

async function find(pauses: ProviderPauses, provider: string): Promise<ProviderLine> {
  const line = (await pauses.list()).find((each) => each.provider === provider);
  if (!line) throw new GatewayError('NOT_FOUND', 'No such provider.');
  return line;
}

const wakeAtOnce = 20;

/** Jobs that are not told now ask by themselves within a minute. */
async function wake(
  { client, logger }: Pick<Composition, 'client' | 'logger'>,
  jobIds: readonly string[],
): Promise<void> {
  for (let next = 0; next < jobIds.length; next += wakeAtOnce) {
    const some = jobIds.slice(next, next + wakeAtOnce);
    // So many at once, then the next.
    await Promise.all(
      some.map((jobId) =>
        askToCheck(client, jobId).catch((error: unknown) => {
          logger.warn({ error, jobId }, 'provider.resume_not_told');
        }),
      ),
    );
  }
}

const figuresMinutes = 15;

const figured = providerSchema
  .extend({
    recent: z
      .object({
        calls: z.int(),
        failed: z
          .int()
          .meta({ description: 'Refused, failed, never answered; not: declined for the input.' }),
        medianSeconds: z.number().nullable(),
        slowSeconds: z.number().nullable().meta({ description: 'The 95th percentile.' }),
      })
      .meta({
        description: `Calls of the jobs accepted in the last ${figuresMinutes} minutes that have ended; a call that went on to another provider counts there.`,
      }),
  })
  .meta({ id: 'ProviderWithFigures' });

const noCalls = { calls: 0, failed: 0, medianSeconds: null, slowSeconds: null };

/** List, pause, resume. */
export const providers = section('Providers', {
  listProviders: defineOperation({
    route: `GET ${path}`,
    summary: 'List the providers, with pauses and recent figures',
    answer: listOf(figured),
    async handle(_, { pauses, readFigures }) {
      const [lines, figures] = await Promise.all([pauses.list(), readFigures(figuresMinutes)]);
      const of = new Map(figures.map(({ provider, ...recent }) => [provider, recent]));
      return found(
        lines.map((line) => ({ ...providerView(line), recent: of.get(line.provider) ?? noCalls })),
      );
    },
  }),

  pauseProvider: defineOperation({
    route: `POST ${path}/:provider/pause`,
    summary: 'Pause a provider: no new calls are sent to it',
    request,
    answer: oneOf(providerSchema),
    errors: ['NOT_FOUND'],
    async handle({ params, ...write }, { pool, pauses }) {
      const { provider } = await find(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await pauseProvider(connection, { ...write.body, provider }))) return;
        await recordAction(connection, write, { action: 'provider.paused', subject: provider });
      });
      return found(providerView(await find(pauses, provider)));
    },
  }),

  resumeProvider: defineOperation({
    route: `POST ${path}/:provider/resume`,
    summary: 'Resume a provider; waiting jobs continue',
    request,
    answer: oneOf(providerSchema.extend({ told: z.int() })),
    errors: ['NOT_FOUND'],
    async handle({ params, ...write }, { pool, pauses, client, logger }) {
      const { provider } = await find(pauses, params.provider);
      await pool.transaction(async (connection) => {
        if (!(await resumeProvider(connection, provider))) return;
        await recordAction(connection, write, { action: 'provider.resumed', subject: provider });
      });
      const waiting = await pauses.waitingJobs(provider);
      void wake({ client, logger }, waiting);
      return found({ ...providerView(await find(pauses, provider)), told: waiting.length });
    },
  }),
});
