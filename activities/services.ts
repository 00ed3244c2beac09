/** Everything with an effect, opened once per process from its configuration. */
import type { Client } from '@temporalio/client';
import type { ChatCatalog } from '../catalog/chat-catalog.ts';
import type { Config } from '../platform/config.ts';
import { openDatabase, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import { createOutbound, type Outbound } from '../platform/outbound.ts';
import { openTelemetry, type Telemetry } from '../platform/telemetry.ts';
import { createProviderLimiter, type ProviderLimiter } from './calls/provider-limiter.ts';
import { openChatCatalog } from './chat/chat-models.ts';
import { createChat, type Chat } from './chat/chat.ts';
import { createChatLedger, type ChatLedger } from './chat/chat-ledger.ts';
import { createInputCopies, type InputCopies } from './inputs/input-copies.ts';
import { createInputs, type Inputs } from './inputs/inputs.ts';
import { createNotificationRelay, type NotificationRelay } from './inbox/notification-relay.ts';
import { createInbox, type Inbox } from './inbox/notifications.ts';
import { observeInbox } from './inbox/observed-inbox.ts';
import { createJobNews, type JobNews } from './jobs/job-news.ts';
import { createJobReads, type JobReads } from './jobs/job-reads.ts';
import { createCallRecords, type CallRecords } from './calls/call-records.ts';
import { createLedger, type Ledger } from './ledger/ledger.ts';
import { observeChatLedger, observeLedger } from './ledger/observed-ledgers.ts';
import { observeProviders } from './providers/observed-providers.ts';
import { observeArtifacts } from './storage/observed-storage.ts';
import { observeWebhooks } from './webhooks/observed-webhooks.ts';
import { createSettlements } from './ledger/settlements.ts';
import { createStatusChecks, type StatusChecks } from './calls/status-checks.ts';
import { createLateOutcomes, type LateOutcomes } from './jobs/late-outcomes.ts';
import { createNotificationUrls, type NotificationUrls } from './providers/notification-url.ts';
import type { Provider } from './providers/provider.ts';
import { createProviders, providerConcurrency } from './providers/registry.ts';
import { createPictures, type Pictures } from './inputs/pictures.ts';
import { createRecordings, type Recordings } from './inputs/recordings.ts';
import { createArtifactStore, type ArtifactStore } from './storage/artifacts.ts';
import { createInputMeter, type InputMeter } from './inputs/input-meter.ts';
import type { SignedUrls } from './storage/local-disk.ts';
import { loadDocuments } from './storage/documents.ts';
import { createKeptFiles, type KeptFiles } from './storage/kept-files.ts';
import { openStorage } from './storage/open-storage.ts';
import type { Storage } from './storage/storage.ts';
import { createUploads, type Uploads } from './storage/uploads.ts';
import { createSigningSecrets, type SigningSecrets } from './webhooks/signing-secrets.ts';
import { createWebhookRelay, type WebhookRelay } from './webhooks/webhook-relay.ts';
import { createWebhooks, type Webhooks } from './webhooks/webhooks.ts';

/** The open services of a process. */
export interface Services {
  pool: DatabasePool;
  ledger: Ledger;
  chatLedger: ChatLedger;
  chat: Chat;
  records: CallRecords;
  reads: JobReads;
  inbox: Inbox;
  statusChecks: StatusChecks;
  outcomes: LateOutcomes;
  slots: ProviderLimiter;
  news: JobNews;
  providers: Map<string, Provider>;
  chatCatalog: ChatCatalog;
  storage: Storage;
  /** Null when the store serves its URLs itself. */
  signedUrls: SignedUrls | null;
  uploads: Uploads;
  keptFiles: KeptFiles;
  inputs: Inputs;
  copies: InputCopies;
  outbound: Outbound;
  artifacts: ArtifactStore;
  meter: InputMeter;
  recordings: Recordings;
  pictures: Pictures;
  urls: NotificationUrls;
  telemetry: Telemetry;
  webhooks: Webhooks;
  signingSecrets: SigningSecrets;
  logger: Logger;
}

/** Where callers and providers reach the API. */
export function publicBaseUrl(config: Config): string {
  const own = `http://${config.API_HOST}:${config.API_PORT}`;
  return (config.PUBLIC_BASE_URL ?? own).replace(/\/$/, '');
}

/** Opens the services; nothing is asked of a server before it is needed. */
export async function openServices(config: Config, logger: Logger): Promise<Services> {
  const telemetry = await openTelemetry(config);
  const { metrics, tracing } = telemetry;
  const pool = await openDatabase({
    url: config.DATABASE_URL,
    poolMax: config.DATABASE_POOL_MAX,
    logger,
    metrics,
  });
  const settlements = metrics && createSettlements(pool, { metrics, logger });
  const observers = { metrics, tracing, settlements };
  const ownUrl = publicBaseUrl(config);
  const { storage, signedUrls } = await openStorage(config, ownUrl);
  const outbound = createOutbound({ admittedOrigins: config.ALLOW_PRIVATE_NETWORK_ORIGINS });
  const uploads = createUploads({
    pool,
    storage,
    logger,
    bytesMax: config.UPLOAD_BYTES_MAX,
    keptMs: config.UPLOAD_KEPT_MS,
  });
  const chatLedger = observeChatLedger(createChatLedger(pool), observers);
  const inputs = createInputs({ pool, storage, uploads, outbound, publicBaseUrl: ownUrl });
  const providers = observeProviders(createProviders(config, { outbound, storage }), observers);
  const statusChecks = createStatusChecks({ pool, providers });
  return {
    pool,
    ledger: observeLedger(createLedger(pool), observers),
    chatLedger,
    chat: createChat({ config, ledger: chatLedger, logger, telemetry }),
    records: createCallRecords(pool),
    reads: createJobReads(pool, (outputs) => loadDocuments(storage, outputs)),
    inbox: observeInbox(createInbox(pool), metrics),
    statusChecks,
    outcomes: createLateOutcomes({ pool, statusChecks, logger }),
    slots: createProviderLimiter(providerConcurrency(config)),
    news: createJobNews(),
    providers,
    chatCatalog: await openChatCatalog(config),
    storage,
    signedUrls,
    uploads,
    keptFiles: createKeptFiles({ pool, storage }),
    inputs,
    copies: createInputCopies({ pool, storage, outbound }),
    outbound,
    artifacts: observeArtifacts(createArtifactStore({ storage, outbound }), tracing),
    meter: createInputMeter({ storage }),
    recordings: createRecordings({ storage, uploads, inputs }),
    pictures: createPictures({ storage, uploads }),
    urls: createNotificationUrls({
      publicBaseUrl: ownUrl,
      secret: config.WEBHOOK_SECRET,
    }),
    telemetry,
    webhooks: observeWebhooks(createWebhooks(pool), metrics),
    signingSecrets: createSigningSecrets(pool, config.WEBHOOK_SIGNING_SECRET),
    logger,
  };
}

/** What tells workflows of what came in. */
export interface Relays {
  notificationRelay: NotificationRelay;
  webhookRelay: WebhookRelay;
}

/** The relays of a process, once it has a connection to Temporal. */
export function createRelays(services: Services, client: Client, config: Config): Relays {
  const { inbox, outcomes, webhooks, logger } = services;
  return {
    notificationRelay: createNotificationRelay({ client, inbox, logger, outcomes }),
    webhookRelay: createWebhookRelay({
      client,
      webhooks,
      logger,
      taskQueuePrefix: config.TASK_QUEUE_PREFIX,
    }),
  };
}
