/** The job resource: get with long-poll, list, events, cancel (design §4). */
import { PassThrough } from 'node:stream';
import type Router from '@koa/router';
import type { RouterContext } from '@koa/router';
import { z } from 'zod';
import type { JobReads, JobRecord } from '../../activities/jobs/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { correlate } from '../../platform/correlation.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import type { Context, RequestState } from '../context.ts';
import { authorize, refuseViewer } from '../middleware/authenticate.ts';
import { parseWith } from '../middleware/body.ts';
import type { Admission } from '../studio/admission.ts';
import type { CancelJob } from '../studio/cancellation.ts';
import type { JobView } from '../../studio/job-view.ts';
import { streamJob } from '../studio/job-events.ts';
import { preferredWaitMs } from '../studio/waiting.ts';

interface JobRoutesDeps {
  cancel: CancelJob;
  reads: JobReads;
  admission: Admission;
  view: JobView;
}

const longPollMaxMs = 60_000;
const eventIntervalMs = 1000;

/** Query of a look at a job. */
export const poll = z.object({ wait: z.coerce.number().min(0).max(60).optional() });
/** Query of the list of jobs. */
export const listing = z.strictObject({
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']).optional(),
  type: z
    .string()
    .regex(/^[A-Za-z]{1,64}$/, 'must be a type of job')
    .optional(),
  after: z.iso.datetime({ offset: true }).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^job_[0-9a-f]{32}$/, 'must be the nextCursor of a page')
    .optional(),
});

/** Adds the routes of the job resource. */
export function addJobRoutes(router: Router<RequestState>, deps: JobRoutesDeps): void {
  const { view } = deps;

  async function find(ctx: RouterContext<RequestState>): Promise<JobRecord> {
    authorize(ctx.state.caller, 'studio:read');
    const { jobId = '' } = ctx.params;
    const job = isId('job', jobId)
      ? await deps.reads.read(ctx.state.caller.organizationId, jobId)
      : null;
    if (!job) throw new GatewayError('JOB_NOT_FOUND');
    correlate({ jobId, workflowId: workflowIdOf(jobId) });
    return job;
  }

  async function wait(ctx: Context, job: JobRecord, waitMs: number): Promise<JobRecord> {
    const { organizationId } = ctx.state.caller;
    return (await deps.admission.awaitEnd({ organizationId, jobId: job.id }, waitMs)) ?? job;
  }

  router.get('/studio/jobs/:jobId', async (ctx) => {
    const job = await find(ctx);
    const { wait: seconds } = parseWith(poll, ctx.query);
    const waitMs = seconds === undefined ? 0 : seconds * 1000;
    const preferred = ctx.get('prefer') ? preferredWaitMs(ctx, longPollMaxMs) : waitMs;
    await show(ctx, view, preferred > 0 ? await wait(ctx, job, preferred) : job);
  });

  router.get('/studio/jobs', async (ctx) => {
    authorize(ctx.state.caller, 'studio:read');
    const query = parseWith(listing, ctx.query);
    const jobs = await deps.reads.list(ctx.state.caller.organizationId, {
      status: query.status,
      type: query.type,
      afterMs: query.after === undefined ? undefined : Date.parse(query.after),
      beforeId: query.cursor,
      limit: query.limit + 1,
    });
    const page = jobs.slice(0, query.limit);
    const hasMore = jobs.length > query.limit;
    ctx.body = {
      success: true,
      data: await Promise.all(page.map((job) => view.resource(job))),
      hasMore,
      nextCursor: hasMore ? page.at(-1)?.id : null,
    };
  });

  router.post('/studio/jobs/:jobId/cancel', async (ctx) => {
    refuseViewer(ctx.state.caller, 'A viewer may not cancel jobs.');
    const job = await find(ctx);
    const now = await deps.cancel(ctx.state.caller.organizationId, job);
    ctx.status = now.status === 'queued' ? 202 : 200;
    await show(ctx, view, now);
  });

  router.get('/studio/jobs/:jobId/events', async (ctx) => {
    const job = await find(ctx);
    const events = new PassThrough();
    ctx.set({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache, no-transform' });
    ctx.status = 200;
    ctx.body = events;
    void streamJob({
      events,
      first: job,
      view,
      next: (last) => wait(ctx, last, eventIntervalMs),
    });
  });
}

async function show(ctx: Context, view: JobView, job: JobRecord): Promise<void> {
  if (job.status === 'queued') ctx.set('Retry-After', '2');
  ctx.body = { success: true, data: await view.resource(job), credits: view.credits(job) };
}
