/**
 * Opens the services of a process from its configuration: database, storage, providers, telemetry
 * and Temporal.
 */
import { isIPv6 } from 'node:net';
import type { Client } from '@temporalio/client';
import type { Config } from '../platform/config.ts';
import { openDatabase, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Logger } from '../platform/logger.ts';
import { createOutbound } from '../platform/outbound.ts';
import { openTelemetry, type ProcessKind } from '../platform/telemetry.ts';
import { createTemporalClient, registerSearchAttributes } from '../platform/temporal.ts';
import { connectTemporal } from '../platform/temporal-connection.ts';
import { searchAttributes } from '../domain/job-contract.ts';
import { openChatCatalog } from '../chat/models.ts';
import { findStudioEndpoint } from '../studio/models/maker-names.ts';
import { createChatJobs } from '../chat/chat-jobs.ts';
import { createChatLedger } from '../chat/chat-ledger.ts';
import { createInputCopies } from '../storage/inputs/input-copies.ts';
import { createCallPictures } from '../storage/inputs/call-pictures.ts';
import { createInputs } from '../storage/inputs/inputs.ts';
import {
  createNotificationRelay,
  createInbox,
  createNotificationUrls,
} from '../providers/notifications.ts';
import { createJobReads } from '../studio/jobs/job-reads.ts';
import { createJobView } from '../studio/jobs/job-view.ts';
import { createCallRecords } from '../providers/call-records.ts';
import { createLedger } from '../ledger/ledger.ts';
import { createPriceBook } from '../ledger/price-book.ts';
import { createSettlements, observeLedger } from '../ledger/observed-ledgers.ts';
import { observeChatLedger } from '../chat/chat-telemetry.ts';
import { observeProviders } from '../providers/observed-providers.ts';
import { createCallChecker, createUnknownOutcomes } from '../studio/jobs/status-checks.ts';
import { createProviders, createProviderSlots } from '../providers/provider-registry.ts';
import { createRequestFiles, createRecordings } from '../storage/inputs/recordings.ts';
import { createArtifactStore, observeArtifacts } from '../storage/artifacts.ts';
import { buildDisposition } from '../storage/file-names.ts';
import { createStoredFiles } from '../storage/stored-files.ts';
import { observeStorage, openStorage } from '../storage/open-storage.ts';
import { createRejectedRequests } from '../request-log/rejected-requests.ts';
import { createUsageSums } from '../ledger/usage-sums.ts';
import { createAcceptFile } from '../storage/picture-conversion.ts';
import { createUploads } from '../storage/uploads.ts';
import { createAccountNotices } from '../webhooks/notices.ts';
import { createSigningSecrets } from '../webhooks/signing-secrets.ts';
import { createWebhookRelay } from '../webhooks/relay.ts';
import { createWebhooks } from '../webhooks/webhooks.ts';

/** Returns the base URL at which callers and providers reach the API. */
export function publicBaseUrl(config: Config): string {
  const host = isIPv6(config.API_HOST) ? `[${config.API_HOST}]` : config.API_HOST;
  const localUrl = `http://${host}:${config.API_PORT}`;
  return (config.PUBLIC_BASE_URL ?? localUrl).replace(/\/$/, '');
}

/** Opens the storage, and the services that read and write files. */
async function openFiles(
  config: Config,
  { pool, logger, metrics }: { pool: DatabasePool; logger: Logger; metrics: Metrics },
) {
  const ownUrl = publicBaseUrl(config);
  const bytesMax = config.UPLOAD_BYTES_MAX;
  const { storage: driver, ...served } = await openStorage(config, ownUrl);
  const storage = observeStorage(driver, { metrics, logger });
  const outbound = createOutbound({ admittedOrigins: config.ALLOW_PRIVATE_NETWORK_ORIGINS });
  const files = { pool, storage, logger };
  const acceptFile = createAcceptFile({ heic: config.HEIC === 'on' });
  const received = { ...files, acceptFile, bytesMax };
  const uploads = createUploads({ ...received, retentionMs: config.UPLOAD_KEPT_MS });
  const inputs = createInputs({ pool, storage, uploads, outbound, publicBaseUrl: ownUrl });
  return {
    storage,
    ...served,
    outbound,
    acceptFile,
    uploads,
    inputs,
    callPictures: createCallPictures(files),
    storedFiles: createStoredFiles(files),
    copies: createInputCopies({ ...received, outbound }),
    artifacts: observeArtifacts(
      createArtifactStore({ storage, outbound, marksOutputs: config.MARK_OUTPUTS }),
    ),
    recordings: createRecordings({ storage, inputs }),
    requestFiles: createRequestFiles({ storage, uploads, acceptFile }),
  };
}

/** Opens the services. A connection is made when it is first needed. */
async function openServices(config: Config, logger: Logger, kind: ProcessKind) {
  const telemetry = await openTelemetry(config, kind);
  const { metrics } = telemetry;
  const pool = await openDatabase({
    url: config.DATABASE_URL,
    poolMax: config.DATABASE_POOL_MAX,
    logger,
    metrics,
  });
  const settlements = createSettlements(pool, { metrics, logger });
  const observers = { metrics, settlements };
  const files = await openFiles(config, { pool, logger, metrics });
  const { storage } = files;
  const chatLedger = observeChatLedger(createChatLedger(pool, metrics), observers);
  const providers = observeProviders(createProviders(config, files), observers);
  return {
    ...files,
    pool,
    ledger: observeLedger(createLedger(pool, metrics), observers),
    chatLedger,
    priceBook: createPriceBook(pool, config),
    chatJobs: createChatJobs(pool),
    records: createCallRecords(pool),
    reads: createJobReads(pool, storage),
    view: createJobView({
      publicBaseUrl: publicBaseUrl(config),
      urlOf: (artifact, ttlMs, text) =>
        storage.urlOf(artifact.storageKey, ttlMs, {
          disposition: buildDisposition({ ...artifact, text }),
        }),
    }),
    usageSums: createUsageSums(pool),
    inbox: createInbox(pool),
    checkCalls: createCallChecker({ pool, providers }),
    unknownOutcomes: createUnknownOutcomes(pool),
    slots: createProviderSlots(config),
    providers,
    chatCatalog: await openChatCatalog(config, findStudioEndpoint),
    urls: createNotificationUrls({
      publicBaseUrl: publicBaseUrl(config),
      secret: config.WEBHOOK_SECRET,
      previousSecret: config.WEBHOOK_SECRET_PREVIOUS,
    }),
    telemetry,
    webhooks: createWebhooks(pool),
    rejectedRequests: createRejectedRequests(pool, logger),
    accountNotices: createAccountNotices(pool),
    signingSecrets: createSigningSecrets(pool, config.WEBHOOK_SIGNING_SECRET),
    logger,
  };
}

export type Services = Awaited<ReturnType<typeof openServices>>;

/**
 * Opens the services and connects to Temporal. Resolves when the Temporal server is ready and has
 * the search attributes that jobs set.
 */
export async function openProcess(config: Config, logger: Logger, kind: ProcessKind) {
  const services = await openServices(config, logger, kind);
  const { connection, close } = await connectTemporal(config, logger);
  const namespace = config.TEMPORAL_NAMESPACE;
  /**
   * Registers the search attributes. The sweeper repeats this, in case the Temporal server has lost
   * its state.
   */
  const prepareServer = (): Promise<void> =>
    registerSearchAttributes(connection, namespace, Object.values(searchAttributes));
  await prepareServer();
  return {
    services,
    connection,
    client: createTemporalClient(connection, config),
    prepareServer,
    async close() {
      services.priceBook.close();
      await services.pool.end();
      await services.telemetry.closeTracing();
      await close();
    },
  };
}

/**
 * Creates the two relays of a process. `notificationRelay` signals provider notifications to
 * workflows; `webhookRelay` starts the workflows that deliver webhooks.
 */
export function createRelays(services: Services, client: Client, config: Config) {
  const { inbox, webhooks, logger } = services;
  const { metrics } = services.telemetry;
  return {
    notificationRelay: createNotificationRelay({ client, inbox, metrics, logger }),
    webhookRelay: createWebhookRelay({
      client,
      webhooks,
      logger,
      taskQueuePrefix: config.TASK_QUEUE_PREFIX,
    }),
  };
}
