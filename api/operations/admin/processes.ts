/** Operators: processes of the gateway, asked to drain. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTimes } from '../../../domain/json.ts';
import { askToDrain, listProcesses } from '../../../platform/process-register.ts';
import { recordAction } from '../../identity/operators.ts';
import { bareWrite, found, listOf, oneOf, time } from '../fields.ts';
import { defineOperation, section } from '../operation.ts';

const gatewayProcess = z
  .object({
    id: z.string(),
    kind: z.enum(['api', 'worker']),
    host: z.string(),
    pid: z.int(),
    buildId: z.string().nullable(),
    startedAt: time,
    seenAt: time,
    drainAskedAt: time.nullable(),
  })
  .meta({ id: 'Process' });
const processId = z.string().regex(/^(api|worker)-[0-9a-f]{8}$/, 'No such process.');

/** List, drain. */
export const processes = section('Processes', {
  listProcesses: defineOperation({
    route: 'GET /api/admin/v1/processes',
    summary: 'List the processes of the gateway',
    answer: listOf(gatewayProcess),
    handle: async (_, { pool }) => found((await listProcesses(pool)).map(isoTimes)),
  }),

  drainProcess: defineOperation({
    route: 'POST /api/admin/v1/processes/:processId/drain',
    summary: 'Drain a process: it takes nothing new, finishes, and exits',
    request: { params: z.object({ processId }), body: bareWrite },
    answer: oneOf(z.object({ processId: z.string() })),
    answers: { 202: 'It is asked.' },
    errors: ['NOT_FOUND'],
    async handle({ params: { processId: id }, ...write }, { pool }) {
      await pool.transaction(async (connection) => {
        if (!(await askToDrain(connection, id))) {
          throw new GatewayError('NOT_FOUND', 'No such process.');
        }
        await recordAction(connection, write, { action: 'process.drain_asked', subject: id });
      });
      return found({ processId: id });
    },
  }),
});
