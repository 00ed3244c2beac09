/** Creates the services that the API endpoints use, once per process. */
import type { Client } from '@temporalio/client';
import { runAudit, type AuditReport } from '../ledger/audit.ts';
import type { AuditScope } from '../ledger/invariants.ts';
import { createReadCalls } from '../studio/jobs/job-calls.ts';
import { createJobOverview } from '../studio/jobs/job-reads.ts';
import { hasRunningWorkflow } from '../executions/workflow-state.ts';
import { createStuckJobs } from '../studio/jobs/stuck-jobs.ts';
import { createLedgerReads } from '../ledger/ledger-reads.ts';
import { createPriceReads } from '../ledger/price-rows.ts';
import { createUsageEvents } from '../ledger/usage-events.ts';
import { createUsageReads } from '../ledger/usage-records.ts';
import { createRequestReads } from '../request-log/request-records.ts';
import { createReadProviderFigures } from '../providers/provider-figures.ts';
import { createProviderPauses } from '../providers/provider-pauses.ts';
import type { ChatService } from '../activities/chat.ts';
import { createRelays, publicBaseUrl, type Services } from '../process/services.ts';
import type { Config } from '../platform/config.ts';
import { codecAccessToken, createPayloadCodec } from '../platform/payload-codec.ts';
import { createGatewayState } from '../process/gateway-state.ts';
import { checkReadiness, type Readiness } from '../process/readiness.ts';
import { cacheResult } from '../platform/temporal.ts';
import { isSecret } from '../domain/ids.ts';
import type { Middleware } from './context.ts';
import { createConstants } from './http/constants.ts';
import { createRequestShares } from './middleware/request-shares.ts';
import { createClaims } from '../ledger/claims.ts';
import { createAccess } from '../identity/access.ts';
import { createKeys } from '../identity/keys.ts';
import { createBrowserTokens } from '../identity/browser-tokens.ts';
import { createEndUserLimits } from '../ledger/end-user-limits.ts';
import { createOperatorFinder } from '../identity/operators.ts';
import { createKeySessions, createSessions } from '../identity/sessions.ts';
import { createAdmission } from '../studio/jobs/admission.ts';
import { createActionRuns } from '../studio/jobs/action-runs.ts';
import { createJobActions } from '../studio/jobs/job-actions.ts';
import { createBatchFiles } from '../bulk/batch-files.ts';
import { createBulkReads } from '../bulk/bulk-reads.ts';
import { createBulkView } from '../bulk/bulk-view.ts';
import { createOpenBulks } from '../bulk/open-bulks.ts';
import { createBulkKind, createBulkWorkflows } from '../bulk/bulk-execution.ts';
import { createJobKind } from '../studio/jobs/job-execution.ts';
import { createFeed } from '../executions/feed.ts';
import { createWaits, type Updates } from '../executions/updates.ts';
import { createPriceLists } from '../studio/requests/prices.ts';
import { createRecipes } from '../studio/requests/recipe-versions.ts';

/** Services of an API process: chats run in it, so no other process has them. */
export type ApiServices = Services & { chat: ChatService };

/** Configuration and services from which the API's services are created. */
export interface AppDeps {
  config: Config;
  services: ApiServices;
  client: Client;
  updates: Updates;
  readiness: Readiness;
  observe?: Middleware | undefined;
}

/** Maximum age of the readiness that a probe gets, in milliseconds. */
const readinessAgeMaxMs = 200;

export type Composition = ReturnType<typeof compose>;

/** Creates the services of an API process. */
export function compose(deps: AppDeps) {
  const { config, services, client, updates } = deps;
  const { pool, logger, reads } = services;
  const claims = createClaims(pool, logger);
  const bulkReads = createBulkReads(pool, reads);
  const relays = createRelays(services, client, config);
  const bulkView = createBulkView({ publicBaseUrl: publicBaseUrl(config), view: services.view });
  const jobKind = createJobKind(reads, services.view);
  const bulkKind = createBulkKind(bulkReads, bulkView);
  const feedDeps = { pool, updates, logger };
  return {
    ...services,
    ...relays,
    config,
    client,
    // Probes share their results, so that a flood of them costs no queries.
    checkReadiness: cacheResult(() => checkReadiness(deps.readiness), readinessAgeMaxMs),
    claims,
    admission: createAdmission({ client, updates, reads, config }),
    jobWaits: createWaits(updates, jobKind),
    bulkWaits: createWaits(updates, bulkKind),
    shares: createRequestShares(config),
    constants: createConstants(),
    jobFeed: createFeed(feedDeps, jobKind),
    bulkFeed: createFeed(feedDeps, bulkKind),
    bulkReads,
    bulkView,
    batchFiles: createBatchFiles(pool, bulkReads),
    bulkWorkflows: createBulkWorkflows({ pool, client, config, logger }),
    readCalls: createReadCalls(pool),
    access: createAccess(pool, config, services.telemetry.metrics),
    sessions: createSessions({
      pool,
      cookie: 'studio_session',
      path: '/api/v1',
      publicBaseUrl: publicBaseUrl(config),
    }),
    keySessions: createKeySessions(pool),
    operatorSessions: createSessions({
      pool,
      cookie: 'studio_operator',
      // GET /api/v1/session reads both cookies, so this cookie needs a path that includes /api/v1.
      path: '/api',
      publicBaseUrl: publicBaseUrl(config),
    }),
    keys: createKeys(pool, config.KEY_PEPPER),
    endUserLimits: createEndUserLimits(pool),
    browserTokens: createBrowserTokens(pool),
    listPrices: createPriceLists(config.USD_PER_CREDIT),
    recipes: createRecipes(pool),
    usageReads: createUsageReads(pool),
    usageEvents: createUsageEvents(pool),
    requestReads: createRequestReads(pool),
    ...createOperatorServices(deps, relays),
  };
}

/** Creates the services that only the operators' endpoints use. */
function createOperatorServices(
  { config, services, client }: AppDeps,
  { webhookRelay }: ReturnType<typeof createRelays>,
) {
  const { pool, providers, storage, logger } = services;
  const jobOverview = createJobOverview(pool);
  const codecSecret = codecAccessToken(config.ADMIN_API_KEY);
  return {
    findOperator: createOperatorFinder(pool, config),
    isCodecSecret: (secret: string | undefined) => isSecret(secret, codecSecret),
    payloadCodec: createPayloadCodec(config),
    ledgerReads: createLedgerReads(pool),
    priceReads: createPriceReads(pool),
    jobOverview,
    jobActions: createJobActions({ ...services, config, client, jobOverview, webhookRelay }),
    actionRuns: createActionRuns({ pool, client, config, logger }),
    stuckJobs: createStuckJobs({ pool, client }),
    openBulks: createOpenBulks({ pool, client }),
    gatewayState: createGatewayState({ pool, connection: client.connection, config }),
    readFigures: createReadProviderFigures(pool),
    pauses: createProviderPauses(pool, [...providers.keys()]),
    audit: ({ results, scope }: { results: boolean; scope: AuditScope }): Promise<AuditReport> =>
      runAudit(
        {
          databaseUrl: config.DATABASE_URL,
          pool,
          hasRunningWorkflow: (jobId) => hasRunningWorkflow(client, jobId),
          ...(results && { storage }),
        },
        { scope },
      ),
  };
}
