/** Operators: what hangs and why, what became of it, and bringing it to an end. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { Client } from '@temporalio/client';
import type { JobOversight, OverseenJob } from '../../../activities/jobs/job-oversight.ts';
import type { NotificationRelay } from '../../../activities/inbox/notification-relay.ts';
import type { Inbox, KeptNotification } from '../../../activities/inbox/notifications.ts';
import { askToCheck, workflowOf } from '../../../activities/jobs/job-owner.ts';
import type { LateOutcomes, UnknownOutcome } from '../../../activities/jobs/late-outcomes.ts';
import type { StuckJobs, StuckLine } from '../../../activities/jobs/stuck-jobs.ts';
import { creditsFromMicro } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { Context, RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { parseBody, parseWith } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import type { Resettle } from '../../studio/resettlement.ts';
import { authority, bareWrite, idField, pageLimit, pageOf } from './fields.ts';
import { overseenJob, type NamesJob } from './overseen-job.ts';

/** What the routes work with. */
export interface OutcomeRoutesDeps {
  pool: DatabasePool;
  client: Client;
  oversight: JobOversight;
  stuck: StuckJobs;
  outcomes: LateOutcomes;
  resettle: Resettle;
  inbox: Inbox;
  relay: NotificationRelay;
}

const stuckListing = z.strictObject({
  organizationId: idField('organization').optional(),
  /** A passed deadline, an outcome in doubt or a lost workflow always counts. */
  olderThanSeconds: z.coerce.number().int().min(0).max(31_536_000).default(300),
  limit: pageLimit,
});
const unknownListing = z.strictObject({
  /** Only those of which a call had succeeded after all. */
  succeeded: z.enum(['true', 'false']).default('false'),
  limit: pageLimit,
  cursor: idField('job').optional(),
});
const notificationListing = z.strictObject({
  state: z.enum(['received', 'delivered', 'late']).optional(),
  limit: pageLimit,
});
const resettlement = bodySchema(
  z.strictObject({
    ...authority,
    /** Release also what the provider may still deliver, when it cannot be taken up again. */
    release: z.boolean().default(false),
  }),
);

/** Adds the routes. */
export function addOutcomeRoutes(router: Router<RequestState>, deps: OutcomeRoutesDeps): void {
  addListings(router, deps);

  const find = (ctx: NamesJob): Promise<OverseenJob> => overseenJob(deps.oversight, ctx);
  // Recorded first: other systems are asked, and nothing may be done unrecorded.
  const record = (ctx: Context, job: OverseenJob, deed: Deed): Promise<void> =>
    recordAction(deps.pool, {
      ...deed,
      organizationId: job.organizationId,
      subject: job.id,
      requestId: ctx.state.requestId,
    });

  router.post('/jobs/:jobId/reverify', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const job = await find(ctx);
    await record(ctx, job, { ...by, action: 'job.reverified' });
    const findings = await deps.outcomes.examine(job.id, 'operator');
    const told = job.status === 'queued' && (await askToCheck(deps.client, job.id));
    const now = await find(ctx);
    const workflow = await workflowOf(deps.client, job.id);
    ctx.body = { success: true, data: { ...stateOf(now), workflow, workflowTold: told, findings } };
  });

  router.post('/jobs/:jobId/resettle', async (ctx) => {
    const { release, ...by } = await parseBody(ctx, resettlement);
    const job = await find(ctx);
    if (job.status !== 'queued') throw new GatewayError('JOB_ALREADY_DONE');
    await record(ctx, job, { ...by, action: 'job.resettled', details: { release } });
    const done = await deps.resettle(job, release);
    ctx.status = done.decision === 'taken_up' ? 202 : 200;
    ctx.body = { success: true, data: { ...stateOf(await find(ctx)), ...done } };
  });

  router.post('/jobs/:jobId/notifications/redeliver', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const job = await find(ctx);
    const kept = await deps.inbox.ofJob(job.id);
    if (kept.length === 0) throw new GatewayError('NOT_FOUND', 'No notification of it was kept.');
    await record(ctx, job, { ...by, action: 'notification.redelivered' });
    await Promise.all(kept.map((notification) => deps.relay.deliver(notification)));
    const now = await deps.inbox.ofJob(job.id);
    ctx.body = { success: true, data: now.map(notificationView) };
  });
}

interface Deed {
  action: string;
  actor: string;
  reason: string;
  details?: { release: boolean };
}

function addListings(router: Router<RequestState>, deps: OutcomeRoutesDeps): void {
  router.get('/stuck', async (ctx) => {
    const { olderThanSeconds, ...listing } = parseWith(stuckListing, { ...ctx.query });
    const lines = await deps.stuck.list({
      organizationId: listing.organizationId,
      olderThanMs: olderThanSeconds * 1000,
      limit: listing.limit,
    });
    ctx.body = { success: true, data: lines.map(stuckView) };
  });

  router.get('/unknown-outcomes', async (ctx) => {
    const { succeeded, limit, cursor } = parseWith(unknownListing, { ...ctx.query });
    const rows = await deps.outcomes.list({
      beforeId: cursor,
      succeeded: succeeded === 'true',
      limit: limit + 1,
    });
    const { page, ...rest } = pageOf(rows, limit, (last) => last.id);
    const counts = await deps.outcomes.counts();
    ctx.body = { success: true, data: page.map(unknownView), counts, ...rest };
  });

  router.get('/notifications', async (ctx) => {
    const { state, limit } = parseWith(notificationListing, { ...ctx.query });
    const kept = await deps.inbox.list({ state, limit });
    ctx.body = { success: true, data: kept.map(notificationView) };
  });
}

function stateOf(job: OverseenJob): Record<string, unknown> {
  return {
    jobId: job.id,
    organizationId: job.organizationId,
    status: job.status,
    verifying: job.verifying,
    errorCode: job.errorCode,
    billing: job.billingState,
  };
}

function stuckView(line: StuckLine): Record<string, unknown> {
  return {
    id: line.id,
    kind: line.kind,
    organizationId: line.organizationId,
    type: line.type,
    model: line.model,
    credits: creditsFromMicro(line.reserved),
    createdAt: isoTime(line.createdAtMs),
    deadlineAt: isoTime(line.deadlineAtMs),
    workflow: line.owner,
    reasons: line.reasons,
  };
}

function unknownView(line: UnknownOutcome): Record<string, unknown> {
  return {
    jobId: line.id,
    organizationId: line.organizationId,
    type: line.type,
    model: line.model,
    errorCode: line.errorCode,
    credits: creditsFromMicro(line.reserved),
    releasedAt: isoTime(line.completedAtMs),
    calls: line.calls.map(({ late, ...call }) => ({
      ...call,
      late: late && {
        verdict: late.verdict,
        foundBy: late.foundBy,
        foundAt: isoTime(late.foundAtMs),
      },
    })),
  };
}

function notificationView(kept: KeptNotification): Record<string, unknown> {
  const { receivedAtMs, ...fields } = kept;
  return { ...fields, receivedAt: isoTime(receivedAtMs) };
}
