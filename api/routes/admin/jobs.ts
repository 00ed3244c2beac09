/** Operators: jobs across organizations: list, look, cancel. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { JobOversight, OverseenJob } from '../../../activities/jobs/job-oversight.ts';
import type { JobReads, JobRecord } from '../../../activities/jobs/job-reads.ts';
import { creditsFromMicro } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { parseBody, parseWith } from '../../middleware/body.ts';
import type { CancelJob } from '../../studio/cancellation.ts';
import type { JobView } from '../../../studio/job-view.ts';
import { bareWrite, idField, pageLimit, pageOf } from './fields.ts';
import { overseenJob, type NamesJob } from './overseen-job.ts';

interface JobRoutesDeps {
  pool: DatabasePool;
  oversight: JobOversight;
  reads: JobReads;
  view: JobView;
  cancel: CancelJob;
}

const listing = z.strictObject({
  organizationId: idField('organization').optional(),
  status: z.enum(['queued', 'completed', 'failed', 'canceled']).optional(),
  type: z
    .string()
    .regex(/^[A-Za-z]{1,64}$/, 'must be a type of job')
    .optional(),
  limit: pageLimit,
  cursor: idField('job').optional(),
});

/** Adds the routes. */
export function addAdminJobRoutes(router: Router<RequestState>, deps: JobRoutesDeps): void {
  async function find(ctx: NamesJob): Promise<{ line: OverseenJob; job: JobRecord }> {
    const line = await overseenJob(deps.oversight, ctx);
    const job = await deps.reads.read(line.organizationId, line.id);
    if (!job) throw new GatewayError('JOB_NOT_FOUND');
    return { line, job };
  }

  router.get('/jobs', async (ctx) => {
    const { limit, cursor, ...filter } = parseWith(listing, { ...ctx.query });
    const rows = await deps.oversight.list({
      organizationId: filter.organizationId,
      status: filter.status,
      type: filter.type,
      beforeId: cursor,
      limit: limit + 1,
    });
    const { page, ...rest } = pageOf(rows, limit, (last) => last.id);
    ctx.body = { success: true, data: page.map(lineView), ...rest };
  });

  router.get('/jobs/:jobId', async (ctx) => {
    const { line, job } = await find(ctx);
    const calls = await deps.oversight.calls(line.id);
    ctx.body = {
      success: true,
      data: {
        ...(await deps.view.resource(job)),
        organizationId: line.organizationId,
        keyId: line.keyId,
        provider: line.provider,
        calls: calls.map(({ begunAtMs, updatedAtMs, ...call }) => ({
          ...call,
          begunAt: isoTime(begunAtMs),
          updatedAt: isoTime(updatedAtMs),
        })),
      },
    };
  });

  router.post('/jobs/:jobId/cancel', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const { line, job } = await find(ctx);
    if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
    // Recorded first: the workflow is another system, and nothing may be done unrecorded.
    await recordAction(deps.pool, {
      ...by,
      action: 'job.cancel_asked',
      organizationId: line.organizationId,
      subject: line.id,
      requestId: ctx.state.requestId,
    });
    const now = await deps.cancel(line.organizationId, job);
    ctx.status = now.status === 'queued' ? 202 : 200;
    ctx.body = {
      success: true,
      data: { ...(await deps.view.resource(now)), organizationId: line.organizationId },
    };
  });
}

function lineView(line: OverseenJob): Record<string, unknown> {
  return {
    jobId: line.id,
    organizationId: line.organizationId,
    keyId: line.keyId,
    type: line.type,
    model: line.model,
    provider: line.provider,
    status: line.status,
    verifying: line.verifying,
    errorCode: line.errorCode,
    billing: {
      state: line.billingState,
      reserved: creditsFromMicro(line.reserved),
      charged: creditsFromMicro(line.charged ?? 0),
    },
    createdAt: isoTime(line.createdAtMs),
    deadlineAt: isoTime(line.deadlineAtMs),
    completedAt: isoTime(line.completedAtMs),
  };
}
