/** Operators: processes of the gateway, asked to drain. */
import type Router from '@koa/router';
import { askToDrain, listProcesses } from '../../../platform/process-register.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { parseBody } from '../../middleware/body.ts';
import { bareWrite } from './fields.ts';

/** Adds the routes. */
export function addProcessRoutes(router: Router<RequestState>, pool: DatabasePool): void {
  router.get('/processes', async (ctx) => {
    const processes = await listProcesses(pool);
    const data = processes.map(({ startedAtMs, seenAtMs, drainAskedAtMs, ...process }) => ({
      ...process,
      startedAt: isoTime(startedAtMs),
      seenAt: isoTime(seenAtMs),
      drainAskedAt: isoTime(drainAskedAtMs),
    }));
    ctx.body = { success: true, data };
  });

  router.post('/processes/:processId/drain', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const id = String(ctx.params['processId']);
    if (!/^(api|worker)-[0-9a-f]{8}$/.test(id)) throw new GatewayError('NOT_FOUND');
    await pool.transaction(async (connection) => {
      if (!(await askToDrain(connection, id))) {
        throw new GatewayError('NOT_FOUND', 'No such process.');
      }
      await recordAction(connection, {
        ...by,
        action: 'process.drain_asked',
        organizationId: null,
        subject: id,
        requestId: ctx.state.requestId,
      });
    });
    ctx.status = 202;
    ctx.body = { success: true, data: { processId: id } };
  });
}
