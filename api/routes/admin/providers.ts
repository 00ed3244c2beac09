/** Operators: providers, paused and resumed. */
import type Router from '@koa/router';
import type { Client } from '@temporalio/client';
import { askToCheck } from '../../../activities/jobs/job-owner.ts';
import {
  pauseProvider,
  resumeProvider,
  type ProviderLine,
  type ProviderPauses,
} from '../../../activities/providers/provider-pauses.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { parseBody } from '../../middleware/body.ts';
import { bareWrite } from './fields.ts';

/** What the routes work with. */
export interface ProviderRoutesDeps {
  pool: DatabasePool;
  client: Client;
  pauses: ProviderPauses;
  logger: Logger;
}

/** Adds the routes. */
export function addProviderRoutes(router: Router<RequestState>, deps: ProviderRoutesDeps): void {
  const { pool, pauses } = deps;

  async function find(provider: string): Promise<ProviderLine> {
    const line = (await pauses.list()).find((each) => each.provider === provider);
    if (!line) throw new GatewayError('NOT_FOUND', 'No such provider.');
    return line;
  }

  router.get('/providers', async (ctx) => {
    ctx.body = { success: true, data: (await pauses.list()).map(providerView) };
  });

  router.post('/providers/:provider/pause', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const { provider } = await find(String(ctx.params['provider']));
    await pool.transaction(async (connection) => {
      if (!(await pauseProvider(connection, { ...by, provider }))) return;
      await recordAction(connection, {
        ...by,
        action: 'provider.paused',
        organizationId: null,
        subject: provider,
        requestId: ctx.state.requestId,
      });
    });
    ctx.body = { success: true, data: providerView(await find(provider)) };
  });

  router.post('/providers/:provider/resume', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const { provider } = await find(String(ctx.params['provider']));
    await pool.transaction(async (connection) => {
      if (!(await resumeProvider(connection, provider))) return;
      await recordAction(connection, {
        ...by,
        action: 'provider.resumed',
        organizationId: null,
        subject: provider,
        requestId: ctx.state.requestId,
      });
    });
    const waiting = await pauses.waitingJobs(provider);
    // Jobs that are not told now ask by themselves within a minute.
    void wake(deps, waiting);
    ctx.body = {
      success: true,
      data: { ...providerView(await find(provider)), told: waiting.length },
    };
  });
}

const wakeAtOnce = 20;

async function wake({ client, logger }: ProviderRoutesDeps, jobIds: string[]): Promise<void> {
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

function providerView({ paused, ...line }: ProviderLine): Record<string, unknown> {
  return {
    ...line,
    paused: paused && {
      since: isoTime(paused.sinceMs),
      actor: paused.actor,
      reason: paused.reason,
    },
  };
}
