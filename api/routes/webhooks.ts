/** Webhooks of callers: the secret that signs them, the log of a job's webhook, redelivery. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { JobReads, JobRecord } from '../../activities/jobs/job-reads.ts';
import { createSigningSecrets } from '../../activities/webhooks/signing-secrets.ts';
import type { WebhookRelay } from '../../activities/webhooks/webhook-relay.ts';
import type { WebhookRecord, Webhooks } from '../../activities/webhooks/webhooks.ts';
import { assert } from '../../domain/assert.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Context, RequestState } from '../context.ts';
import { claimKey, finishClaim } from '../idempotency/claims.ts';
import { authorize, refuseViewer } from '../middleware/authenticate.ts';
import { parseBody, parseWith } from '../middleware/body.ts';
import { bodySchema } from '../middleware/body-schema.ts';
import { idempotencyKeyOf } from '../middleware/idempotency-key.ts';
import { showWebhook } from '../studio/webhook-view.ts';

interface WebhookRoutesDeps {
  pool: DatabasePool;
  webhooks: Webhooks;
  relay: WebhookRelay;
  reads: JobReads;
  /** WEBHOOK_SIGNING_SECRET. */
  signingSecret: string;
}

const daySeconds = 86_400;

/** Body of a rotation; all of it is optional. */
export const rotateSecretRequest = bodySchema(
  z.strictObject({
    overlapSeconds: z
      .int()
      .min(0)
      .max(7 * daySeconds)
      .default(daySeconds),
  }),
);

/** Adds the routes. */
export function addWebhookRoutes(router: Router<RequestState>, deps: WebhookRoutesDeps): void {
  addSecretRoutes(router, deps);

  async function find(
    ctx: Context & { params: Record<string, string> },
  ): Promise<{ job: JobRecord; webhook: WebhookRecord }> {
    authorize(ctx.state.caller, 'studio:read');
    const { organizationId } = ctx.state.caller;
    const { jobId = '' } = ctx.params;
    const job = isId('job', jobId) ? await deps.reads.read(organizationId, jobId) : null;
    if (!job) throw new GatewayError('JOB_NOT_FOUND');
    const webhook = await deps.webhooks.find({ jobId, organizationId });
    if (!webhook) throw new GatewayError('NOT_FOUND', 'This job has no webhook.');
    return { job, webhook };
  }

  router.get('/studio/jobs/:jobId/webhook', async (ctx) => {
    const { webhook } = await find(ctx);
    ctx.body = { success: true, data: await showWebhook(deps.webhooks, webhook) };
  });

  router.post('/studio/jobs/:jobId/webhook/redeliver', async (ctx) => {
    const { job, webhook } = await find(ctx);
    if (job.status === 'queued') throw new GatewayError('JOB_NOT_DONE');
    await deps.relay.redeliver(webhook);
    const now = await deps.webhooks.find(webhook);
    ctx.status = 202;
    ctx.body = { success: true, data: await showWebhook(deps.webhooks, now ?? webhook) };
  });
}

function addSecretRoutes(
  router: Router<RequestState>,
  { pool, signingSecret }: WebhookRoutesDeps,
): void {
  async function show(ctx: Context): Promise<void> {
    const live = await createSigningSecrets(pool, signingSecret).live(
      ctx.state.caller.organizationId,
    );
    const [inUse, ...replaced] = live;
    assert(inUse, 'an organization has a secret');
    // No cache on the way may keep the secret.
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      secret: inUse.secret,
      generation: inUse.generation,
      replaced: replaced.map(({ generation, retiresAtMs }) => ({
        generation,
        retiresAt: new Date(retiresAtMs ?? 0).toISOString(),
      })),
    };
  }

  router.get('/webhooks/secret', async (ctx) => {
    mayHoldSecrets(ctx);
    await show(ctx);
  });

  router.post('/webhooks/secret/rotate', async (ctx) => {
    mayHoldSecrets(ctx);
    const empty = ctx.is('json') === null || ctx.request.length === 0;
    const wanted = empty
      ? parseWith(rotateSecretRequest, {})
      : await parseBody(ctx, rotateSecretRequest);
    const idempotencyKey = idempotencyKeyOf(ctx);
    const { organizationId } = ctx.state.caller;
    const repeated = await pool.transaction(async (connection) => {
      if (idempotencyKey !== null) {
        const path = '/webhooks/secret/rotate';
        const request = { organizationId, idempotencyKey, path, body: wanted };
        const claim = await claimKey(connection, { ...request, subjectId: 'webhook-secret' });
        if (claim.state === 'done') return true;
        await finishClaim(connection, claim.name);
      }
      const secrets = createSigningSecrets(connection, signingSecret);
      await secrets.rotate(organizationId, wanted.overlapSeconds * 1000);
      return false;
    });
    if (repeated) ctx.set('Idempotent-Replayed', 'true');
    await show(ctx);
  });
}

/** Who knows the secret can forge webhooks: it is guarded as the making of keys is. */
function mayHoldSecrets(ctx: Context): void {
  authorize(ctx.state.caller, 'keys:write');
  refuseViewer(ctx.state.caller, 'A viewer may not see or rotate the webhook secret.');
}
