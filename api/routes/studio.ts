/** POST /api/v1/studio/…: one handler for every capability of the registry. */
import type Router from '@koa/router';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Inputs } from '../../activities/inputs.ts';
import type { InputMeter } from '../../activities/storage/input-meter.ts';
import type { JobRecord } from '../../activities/job-reads.ts';
import type { Recordings } from '../../activities/recordings.ts';
import type { Config } from '../../platform/config.ts';
import type { Capability } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import type { Context, RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';
import { parseWith } from '../middleware/body.ts';
import type { Admission } from '../studio/admission.ts';
import type { Hearing } from '../studio/hearing.ts';
import { idempotencyKeyText, type Claim, type Idempotency } from '../studio/idempotency.ts';
import type { JobView } from '../studio/job-view.ts';
import { measurePrices } from '../studio/measured-prices.ts';
import { completePlan, type Planned } from '../studio/planner.ts';
import { readRequest } from '../studio/request-reading.ts';
import { preferredWaitMs } from '../studio/waiting.ts';

interface StudioRoutesDeps {
  config: Config;
  admission: Admission;
  idempotency: Idempotency;
  services: { inputs: Inputs; meter: InputMeter; recordings: Recordings };
  view: JobView;
}

const idempotencyKey = z.object({ 'Idempotency-Key': idempotencyKeyText });

/** Adds the routes of all capabilities. */
export function addStudioRoutes(router: Router<RequestState>, deps: StudioRoutesDeps): void {
  let waiting = 0;

  /** The job's end within the wait, or its state then. */
  async function awaitEnd(job: Parameters<Admission['awaitEnd']>[0], waitMs: number) {
    // Beyond this many waiters an answer to poll is kinder than a slow process.
    const allowed = waiting < deps.config.SYNC_WAITERS_MAX;
    waiting += 1;
    try {
      return await deps.admission.awaitEnd(job, allowed ? waitMs : 0);
    } finally {
      waiting -= 1;
    }
  }

  async function claim(ctx: Context, capability: Capability, body: unknown): Promise<Claim> {
    const newJobId = newId('job');
    if (ctx.headers['idempotency-key'] === undefined) return { jobId: newJobId, replayed: false };
    const key = parseWith(idempotencyKey, { 'Idempotency-Key': ctx.get('idempotency-key') });
    return deps.idempotency.claim({
      organizationId: ctx.state.caller.organizationId,
      idempotencyKey: key['Idempotency-Key'],
      path: capability.path,
      body,
      newJobId,
    });
  }

  async function handle(ctx: Context, capability: Capability): Promise<void> {
    const { caller, requestId } = ctx.state;
    const { request, recording } = await readRequest(ctx, capability, deps.services.recordings);
    const draft = capability.plan(request, recording);
    authorize(caller, capability.scope, draft.model);
    const waitMs = draft.async ? 0 : preferredWaitMs(ctx, deps.config.SYNC_WAIT_MS);
    const ready = await deps.services.inputs.prepare(draft, caller.organizationId);
    const { jobId, replayed } = await claim(ctx, capability, request);
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    const planned = { jobId, requestId, caller, capability, request, draft: ready };
    const heard = replayed ? null : await admit(planned, ctx);
    const job = await awaitEnd({ organizationId: caller.organizationId, jobId, heard }, waitMs);
    if (!job) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'The job could not be admitted.', {
        retryAfterSeconds: 2,
      });
    }
    await answer(ctx, { capability, job, view: deps.view });
  }

  async function admit(planned: Planned, ctx: Context): Promise<Hearing> {
    try {
      const draft = await measurePrices(deps.services.meter, planned.draft);
      return await deps.admission.admit(completePlan(deps.config, { ...planned, draft }));
    } catch (error) {
      const refused = error instanceof GatewayError && error.code !== 'SERVICE_UNAVAILABLE';
      if (refused && ctx.headers['idempotency-key'] !== undefined) {
        await deps.idempotency.giveBack(planned.caller.organizationId, planned.jobId);
      }
      throw error;
    }
  }

  for (const capability of capabilities) {
    router.post(capability.path, (ctx) => handle(ctx, capability));
  }
}

interface Answer {
  capability: Capability;
  job: JobRecord;
  view: JobView;
}

/** 200 with the result, the job's own failure, or 202 with where to look (design §4). */
async function answer(ctx: Context, { capability, job, view }: Answer): Promise<void> {
  if (job.error) {
    throw new GatewayError(job.error.code, job.error.message, { body: { jobId: job.id } });
  }
  const data = await view.result(job);
  if (data) {
    const credits = view.credits(job);
    ctx.status = 200;
    if (capability.envelope === 'bare') {
      ctx.set({
        'X-Credits-Used': String(credits.used),
        'X-Credits-Cost': String(credits.cost),
        'X-Credits-Remaining': String(credits.remaining),
      });
      ctx.body = data;
    } else ctx.body = { success: true, data, credits };
    return;
  }
  const ticket = view.ticket(job);
  ctx.status = 202;
  ctx.set('Location', String(ticket['statusUrl']));
  ctx.set('Retry-After', '2');
  ctx.body = { success: true, data: ticket, credits: view.credits(job) };
}
