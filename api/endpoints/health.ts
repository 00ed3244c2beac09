/**
 * GET /healthz: reports that the process is running. GET /readyz: reports whether it can serve
 * requests.
 */
import { z } from 'zod';
import { defineEndpoint } from './endpoint.ts';

/** Endpoints of the liveness and readiness probes. */
export const health = [
  defineEndpoint({
    route: 'GET /healthz',
    scope: 'open',
    response: z.object({ status: z.literal('ok') }),
    handle: () => ({ status: 'ok' as const }),
  }),

  defineEndpoint({
    route: 'GET /readyz',
    scope: 'open',
    response: z.object({
      status: z.string(),
      checks: z.record(z.string(), z.boolean()),
      milliseconds: z.record(z.string(), z.int()).meta({ description: 'Duration of each check.' }),
      certificateDays: z.record(z.string(), z.number()).meta({
        description: 'Days until each client certificate of the process ends, by its variable.',
      }),
    }),
    responses: {
      200: 'The process can serve requests.',
      503: 'The process cannot serve requests.',
    },
    async handle({ ctx }, { checkReadiness }) {
      const { ready, ...report } = await checkReadiness();
      ctx.status = ready ? 200 : 503;
      if (!ready) ctx.set('Retry-After', '2');
      return report;
    },
  }),
];
