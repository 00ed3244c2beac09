/** The HTTP application on one screen: the order of the middleware is the order of refusals. */
import Router, { type RouterMiddleware } from '@koa/router';
import type { Client } from '@temporalio/client';
import Koa from 'koa';
import helmet from 'koa-helmet';
import { loadDocuments } from '../activities/documents.ts';
import { createInbox } from '../activities/notifications.ts';
import { createNotificationRelay } from '../activities/notification-relay.ts';
import { createJobReads } from '../activities/job-reads.ts';
import { createUsageReads } from '../activities/ledger/usage-reads.ts';
import { publicBaseUrl, type Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import { notificationSignalName, workflowIdOf } from '../workflows/contract.ts';
import type { RequestState } from './context.ts';
import { createAccess } from './identity/access.ts';
import { createKeys } from './identity/keys.ts';
import { authenticate } from './middleware/authenticate.ts';
import { errorAnswers } from './middleware/error-answers.ts';
import { requestLog } from './middleware/request-log.ts';
import { createAdminRouter } from './routes/admin/admin.ts';
import { addApiKeyRoutes } from './routes/api-keys.ts';
import { addDocsRoutes } from './routes/docs.ts';
import { addChatRoutes } from './routes/chat.ts';
import { addFileRoutes } from './routes/files.ts';
import { addHealthRoutes, type Readiness } from './routes/health.ts';
import { addHookRoutes } from './routes/hooks.ts';
import { addJobRoutes } from './routes/jobs.ts';
import { addModelRoutes } from './routes/models.ts';
import { addStudioRoutes } from './routes/studio.ts';
import { addUploadRoute, addUploadUrlRoute } from './routes/uploads.ts';
import { addUsageRoutes } from './routes/usage.ts';
import { createAdmission } from './studio/admission.ts';
import { createCancelJob } from './studio/cancellation.ts';
import { createIdempotency } from './studio/idempotency.ts';
import { createJobView } from './studio/job-view.ts';

/** What the application is made from. */
export interface AppDeps {
  config: Config;
  services: Services;
  client: Client;
  /** Whether this process works on the Studio queue. */
  eager: boolean;
  readiness: Readiness;
}

/** How long a result URL reads; every answer signs anew. */
const resultUrlTtlMs = 24 * 3_600_000;

/** Makes the application; it listens nowhere yet. */
export function createApp(deps: AppDeps): Koa<RequestState> {
  const { config, services, client } = deps;
  const { pool, news, storage, logger } = services;
  const reads = createJobReads(pool, (outputs) => loadDocuments(storage, outputs));
  const inbox = createInbox(pool);
  const relay = createNotificationRelay({
    client,
    inbox,
    logger,
    signalName: notificationSignalName,
    workflowIdOf,
  });
  const admission = createAdmission({ client, news, reads, config, eager: deps.eager });
  const idempotency = createIdempotency(pool);
  const view = createJobView({
    publicBaseUrl: publicBaseUrl(config),
    urlOf: (artifact) => storage.urlOf(artifact.storageKey, resultUrlTtlMs),
  });

  const open = new Router<RequestState>();
  open.use(rememberRoute);
  addHealthRoutes(open, deps.readiness);
  addDocsRoutes(open, publicBaseUrl(config));
  if (services.signedUrls) {
    const { signedUrls, uploads } = services;
    addFileRoutes(open, { storage, signedUrls });
    addUploadRoute(open, { storage, signedUrls, uploads });
  }
  addHookRoutes(open, { providers: services.providers, urls: services.urls, inbox, relay, logger });

  const cancel = createCancelJob({ client, admission });
  const admin = createAdminRouter({
    adminKey: config.ADMIN_API_KEY,
    keyPepper: config.KEY_PEPPER,
    pool,
    ledger: services.ledger,
    reads,
    view,
    cancel,
  });

  const keyed = new Router<RequestState>({ prefix: '/api/v1' });
  keyed.use(
    rememberRoute,
    authenticate(createAccess(pool, config.KEY_PEPPER), {
      requestsPerMinute: config.RATE_LIMIT_PER_MINUTE,
      pollsPerMinute: config.POLL_RATE_LIMIT_PER_MINUTE,
    }),
  );
  addModelRoutes(keyed, services.chatCatalog);
  addJobRoutes(keyed, { cancel, reads, admission, view });
  addChatRoutes(keyed, {
    chat: services.chat,
    catalog: services.chatCatalog,
    outbound: services.outbound,
    stallTimeoutMs: config.CHAT_STALL_TIMEOUT_MS,
  });
  addStudioRoutes(keyed, { config, services, admission, idempotency, view });
  addUploadUrlRoute(keyed, {
    storage,
    uploads: services.uploads,
    uploadTtlMs: config.UPLOAD_URL_TTL_MS,
    readTtlMs: config.UPLOAD_READ_TTL_MS,
  });
  addApiKeyRoutes(keyed, createKeys(pool, config.KEY_PEPPER));
  addUsageRoutes(keyed, createUsageReads(pool));

  const app = new Koa<RequestState>();
  app.use(requestLog(logger));
  app.use(errorAnswers(logger));
  // A gateway behind plain http (development) must not send its own pages to https.
  app.use(helmet({ contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } } }));
  app.use(open.routes());
  app.use(admin.routes());
  app.use(keyed.routes());
  app.silent = true;
  return app;
}

/** Keeps the pattern of the matched route for the log. */
const rememberRoute: RouterMiddleware<RequestState> = async (ctx, next) => {
  ctx.state.route = String(ctx['_matchedRoute']);
  await next();
};
