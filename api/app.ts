/** The HTTP application: the order of the middleware is the order of refusals. */
import Router from '@koa/router';
import type { Client } from '@temporalio/client';
import Koa from 'koa';
import { runAudit } from '../activities/ledger/audit.ts';
import { loadDocuments } from '../activities/storage/documents.ts';
import { createInbox } from '../activities/inbox/notifications.ts';
import { createNotificationRelay } from '../activities/inbox/notification-relay.ts';
import { ownerOf } from '../activities/jobs/job-owner.ts';
import { createJobReads } from '../activities/jobs/job-reads.ts';
import { createWebhookRelay } from '../activities/webhooks/webhook-relay.ts';
import { createForeseenRefusals } from '../activities/ledger/foreseen-refusals.ts';
import { createUsageReads } from '../activities/ledger/usage-reads.ts';
import { createProviderPauses } from '../activities/providers/provider-pauses.ts';
import { createStuckJobs } from '../activities/jobs/stuck-jobs.ts';
import { publicBaseUrl, type Services } from '../activities/services.ts';
import { observeInbox } from '../activities/inbox/observed-inbox.ts';
import { observeForeseen } from '../activities/ledger/observed-ledgers.ts';
import type { Config } from '../platform/config.ts';
import type { Readiness } from '../platform/readiness.ts';
import type { Handler } from './starting.ts';
import type { Middleware, RequestState } from './context.ts';
import { createClaims } from './idempotency/claims.ts';
import { createAccess, type Access, type RateBucket } from './identity/access.ts';
import { authenticate } from './middleware/authenticate.ts';
import { limitBodyBytes } from './middleware/body-bytes.ts';
import { errorAnswers } from './middleware/error-answers.ts';
import { exactPaths, gate } from './middleware/gate.ts';
import { observedRequests } from './middleware/observed-requests.ts';
import { requestLog } from './middleware/request-log.ts';
import { securityHeaders } from './middleware/security-headers.ts';
import { createAdminRouter } from './routes/admin/admin.ts';
import { addApiKeyRoutes } from './routes/api-keys.ts';
import { addDocsRoutes } from './routes/docs.ts';
import { addCodecRoutes } from './routes/admin/codec.ts';
import { addChatRoutes } from './routes/chat.ts';
import { addFileRoutes } from './routes/files.ts';
import { addHealthRoutes } from './routes/health.ts';
import { addHookRoutes } from './routes/hooks.ts';
import { addJobRoutes } from './routes/jobs.ts';
import { addModelRoutes } from './routes/models.ts';
import { addStudioModelRoutes } from './routes/studio-models.ts';
import { addStudioRoutes } from './routes/studio.ts';
import { addUploadRoute, addUploadUrlRoute } from './routes/uploads.ts';
import { addUsageRoutes } from './routes/usage.ts';
import { addWebhookRoutes } from './routes/webhooks.ts';
import { createAdmission } from './studio/admission.ts';
import { createCancelJob } from './studio/cancellation.ts';
import { createJobView } from '../studio/job-view.ts';
import { createResettle } from './studio/resettlement.ts';

/** What the application is made from. */
export interface AppDeps {
  config: Config;
  services: Services;
  client: Client;
  /** Whether this process works on the Studio queue. */
  eager: boolean;
  readiness: Readiness;
}

/** Makes the application; it listens nowhere yet. */
export function createApp(deps: AppDeps): Handler {
  const parts = createParts(deps);
  const { logger, telemetry } = deps.services;
  const app = new Koa<RequestState>();
  app.use(requestLog(logger));
  app.use(securityHeaders);
  for (const observed of observedRequests(telemetry)) app.use(observed);
  app.use(errorAnswers(logger));
  app.use(
    limitBodyBytes({
      processMax: deps.config.BODY_BYTES_MAX,
      keyMax: deps.config.BODY_BYTES_PER_KEY_MAX,
    }),
  );
  app.use(forgetCallers(parts.access));
  app.use(keyedRoutes(deps, parts).routes());
  app.use(openRoutes(deps, parts).routes());
  app.use(adminRoutes(deps, parts).routes());
  app.silent = true;
  const answer = app.callback();
  return (request, response) => void answer(request, response);
}

type Parts = ReturnType<typeof createParts>;

function rateLimitsOf(config: Config): Record<RateBucket, number> {
  return { requests: config.RATE_LIMIT_PER_MINUTE, polls: config.POLL_RATE_LIMIT_PER_MINUTE };
}

/** What several routes share. */
function createParts({ config, services, client, eager }: AppDeps) {
  const { pool, news, storage, logger, outcomes, telemetry } = services;
  const reads = createJobReads(pool, (outputs) => loadDocuments(storage, outputs));
  const refusals = observeForeseen(createForeseenRefusals(pool), telemetry.metrics);
  const admission = createAdmission({ client, news, reads, refusals, config, eager });
  const view = createJobView({
    publicBaseUrl: publicBaseUrl(config),
    urlOf: (artifact, ttlMs) => storage.urlOf(artifact.storageKey, ttlMs),
  });
  const webhookRelay = createWebhookRelay({
    client,
    webhooks: services.webhooks,
    logger,
    taskQueuePrefix: config.TASK_QUEUE_PREFIX,
  });
  const cancel = createCancelJob({ client, admission });
  const inbox = observeInbox(createInbox(pool), telemetry.metrics);
  const relay = createNotificationRelay({
    client,
    inbox,
    logger,
    outcomes,
  });
  const access = createAccess(pool, {
    pepper: config.KEY_PEPPER,
    previousPepper: config.KEY_PEPPER_PREVIOUS,
    limits: rateLimitsOf(config),
  });
  const claims = createClaims(pool, logger);
  return {
    claims,
    reads,
    admission,
    view,
    access,
    cancel,
    webhookRelay,
    inbox,
    relay,
  };
}

/** Routes that need no key: their own signatures, or nothing to hide. */
function openRoutes(
  { config, services, readiness }: AppDeps,
  { inbox, relay }: Parts,
): Router<RequestState> {
  const { storage, signedUrls, uploads } = services;
  const router = new Router<RequestState>(exactPaths);
  addCodecRoutes(router, config);
  addHealthRoutes(router, readiness);
  addDocsRoutes(router, publicBaseUrl(config));
  if (signedUrls) {
    addFileRoutes(router, { storage, signedUrls });
    addUploadRoute(router, { storage, signedUrls, uploads });
  }
  addHookRoutes(router, { ...services, inbox, relay });
  return router;
}

/** Routes of operators, behind the admin key. */
function adminRoutes({ config, services, client }: AppDeps, parts: Parts): Router<RequestState> {
  const { pool, ledger, looks, outcomes, inputs, providers, storage, webhooks, logger } = services;
  const oversee = {
    ...parts,
    pool,
    client,
    outcomes,
    logger,
    stuck: createStuckJobs({ pool, client }),
    resettle: createResettle({ config, client, ledger, looks, inputs, reads: parts.reads }),
    pauses: createProviderPauses(pool, [...providers.keys()]),
  };
  return createAdminRouter({
    adminKey: config.ADMIN_API_KEY,
    keyPepper: config.KEY_PEPPER,
    pool,
    ledger,
    audit: ({ results }) =>
      runAudit({
        databaseUrl: config.DATABASE_URL,
        pool,
        isOwned: async (jobId) => (await ownerOf(client, jobId)) === 'running',
        ...(results && { storage }),
      }),
    webhooks,
    oversee,
    ...parts,
  });
}

/** Routes of callers, behind an API key and its rate limit. */
function keyedRoutes({ config, services }: AppDeps, parts: Parts): Router<RequestState> {
  const { pool, storage, uploads, chatCatalog, webhooks } = services;
  const router = new Router<RequestState>({ prefix: '/api/v1', ...exactPaths });
  addChatRoutes(router, {
    chat: services.chat,
    catalog: chatCatalog,
    outbound: services.outbound,
    claims: parts.claims,
    stallTimeoutMs: config.CHAT_STALL_TIMEOUT_MS,
    keepaliveMs: config.CHAT_KEEPALIVE_MS,
  });
  addModelRoutes(router, chatCatalog);
  addJobRoutes(router, parts);
  addStudioModelRoutes(router);
  addStudioRoutes(router, { config, services, ...parts });
  addUploadUrlRoute(router, {
    storage,
    uploads,
    uploadTtlMs: config.UPLOAD_URL_TTL_MS,
    readTtlMs: config.UPLOAD_READ_TTL_MS,
  });
  addWebhookRoutes(router, {
    ...parts,
    pool,
    webhooks,
    relay: parts.webhookRelay,
    signingSecret: config.WEBHOOK_SIGNING_SECRET,
  });
  addApiKeyRoutes(router, { pool, keyPepper: config.KEY_PEPPER });
  addUsageRoutes(router, { reads: createUsageReads(pool), uploads });
  gate(router, authenticate(parts.access, rateLimitsOf(config)));
  return router;
}

const changesAccess = /^\/api\/(?:admin\/v1|v1\/api-keys)\b/i;

/** What changes keys, roles or organizations holds in this process from its answer on. */
function forgetCallers(access: Access): Middleware {
  return async (ctx, next) => {
    await next();
    if (ctx.method !== 'GET' && changesAccess.test(ctx.path)) access.forget();
  };
}
