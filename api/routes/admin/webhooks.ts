/** Operators: webhooks that do not get through, and their redelivery. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { JobOversight } from '../../../activities/jobs/job-oversight.ts';
import type { WebhookRelay } from '../../../activities/webhooks/webhook-relay.ts';
import type { WebhookRecord, Webhooks } from '../../../activities/webhooks/webhooks.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { parseBody, parseWith } from '../../middleware/body.ts';
import { showWebhook, webhookView } from '../../studio/webhook-view.ts';
import { bareWrite, idField, pageLimit, pageOf } from './fields.ts';
import { overseenJob, type NamesJob } from './overseen-job.ts';

const listing = z.strictObject({
  organizationId: idField('organization').optional(),
  /** Absent: all whose last attempt has failed. */
  status: z.enum(['waiting', 'delivering', 'delivered', 'gone', 'failed']).optional(),
  limit: pageLimit,
  cursor: idField('job').optional(),
});

interface WebhookRoutesDeps {
  pool: DatabasePool;
  oversight: JobOversight;
  webhooks: Webhooks;
  webhookRelay: WebhookRelay;
}

/** Adds the routes. */
export function addAdminWebhookRoutes(router: Router<RequestState>, deps: WebhookRoutesDeps): void {
  const { pool, oversight, webhooks, webhookRelay } = deps;

  async function find(ctx: NamesJob): Promise<WebhookRecord & { done: boolean }> {
    const job = await overseenJob(oversight, ctx);
    const webhook = await webhooks.find({ jobId: job.id, organizationId: job.organizationId });
    if (!webhook) throw new GatewayError('NOT_FOUND', 'This job has no webhook.');
    return { ...webhook, done: job.status !== 'queued' };
  }

  router.get('/webhooks', async (ctx) => {
    const { limit, cursor, organizationId, status: state } = parseWith(listing, { ...ctx.query });
    const rows = await webhooks.failing({
      organizationId,
      state,
      beforeJobId: cursor,
      limit: limit + 1,
    });
    const { page, ...rest } = pageOf(rows, limit, (last) => last.jobId);
    const data = page.map((webhook) => ({
      ...webhookView(webhook),
      organizationId: webhook.organizationId,
      lastStatus: webhook.lastStatus,
      lastError: webhook.lastError,
    }));
    ctx.body = { success: true, data, ...rest };
  });

  router.get('/jobs/:jobId/webhook', async (ctx) => {
    const webhook = await find(ctx);
    ctx.body = { success: true, data: await showWebhook(webhooks, webhook) };
  });

  router.post('/jobs/:jobId/webhook/redeliver', async (ctx) => {
    const by = await parseBody(ctx, bareWrite);
    const webhook = await find(ctx);
    if (!webhook.done) throw new GatewayError('JOB_NOT_DONE');
    // Recorded first: the workflow is another system, and nothing may be done unrecorded.
    await recordAction(pool, {
      ...by,
      action: 'webhook.redelivery_asked',
      organizationId: webhook.organizationId,
      subject: webhook.jobId,
      requestId: ctx.state.requestId,
    });
    await webhookRelay.redeliver(webhook);
    ctx.status = 202;
    ctx.body = {
      success: true,
      data: await showWebhook(webhooks, await find(ctx)),
    };
  });
}
