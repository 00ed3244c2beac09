/** All activities, made from what they depend on. Workflows import only the types of this file. */
import type { Config } from '../platform/config.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { JobRecord } from '../studio/job-record.ts';
import type { Inputs } from './inputs/inputs.ts';
import { createAssembly, type Assembly } from './calls/assembly.ts';
import type { ProviderLimiter } from './calls/provider-limiter.ts';
import { createJobMoves, type JobMoves } from './jobs/job-moves.ts';
import type { JobNews } from './jobs/job-news.ts';
import type { JobReads } from './jobs/job-reads.ts';
import type { CallRecords } from './calls/call-records.ts';
import type { Ledger } from './ledger/ledger.ts';
import { createProviderCalls, type ProviderCalls } from './calls/provider-calls.ts';
import type { NotificationUrls } from './providers/notification-url.ts';
import type { Provider } from './providers/provider.ts';
import type { ArtifactStore } from './storage/artifacts.ts';
import type { Storage } from './storage/storage.ts';
import { createDeliveries, type Deliveries } from './webhooks/delivery.ts';
import type { SigningSecrets } from './webhooks/signing-secrets.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

/** What activities need; a process makes it once. */
export interface ActivityDeps {
  pool: DatabasePool;
  ledger: Ledger;
  reads: JobReads;
  records: CallRecords;
  slots: ProviderLimiter;
  news: JobNews;
  providers: Map<string, Provider>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  storage: Storage;
  urls: NotificationUrls;
  webhooks: Webhooks;
  signingSecrets: SigningSecrets;
  outbound: Outbound;
  /** A job as its callers see it. */
  showJob: (job: JobRecord) => Promise<Record<string, unknown>>;
  config: Pick<Config, 'WEBHOOK_TIMEOUT_MS' | 'WEBHOOK_RETRY_DELAYS_MS'>;
  logger: Logger;
}

/** Activities of the Studio queue, of the provider queues and of the webhook queue. */
export type Activities = JobMoves & ProviderCalls & Assembly & Deliveries;

/** See `Activities`. */
export function createActivities(deps: ActivityDeps): Activities {
  return {
    ...createJobMoves(deps),
    ...createProviderCalls(deps),
    ...createAssembly(deps),
    ...createDeliveries({
      ...deps,
      readJob: deps.reads.read,
      timeoutMs: deps.config.WEBHOOK_TIMEOUT_MS,
      retryDelaysMs: deps.config.WEBHOOK_RETRY_DELAYS_MS,
    }),
  };
}
