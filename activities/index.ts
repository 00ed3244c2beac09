/** All activities, made from what they depend on. Workflows import only the types of this file. */
import type { DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { Inputs } from './inputs.ts';
import { createAssembly, type Assembly } from './assembly.ts';
import type { CallEars } from './call-ears.ts';
import type { CallSlots } from './call-slots.ts';
import { createJobMoves, type JobMoves } from './job-moves.ts';
import type { JobNews } from './job-news.ts';
import type { CallRecords } from './ledger/call-records.ts';
import type { Ledger } from './ledger/ledger.ts';
import { createProviderCalls, type ProviderCalls } from './provider-calls.ts';
import type { NotificationUrls } from './providers/notification-url.ts';
import type { Provider } from './providers/provider.ts';
import type { ArtifactStore } from './storage/artifacts.ts';
import type { Storage } from './storage/storage.ts';

/** What activities need; a process makes it once. */
export interface ActivityDeps {
  pool: DatabasePool;
  ledger: Ledger;
  records: CallRecords;
  ears: CallEars;
  slots: CallSlots;
  news: JobNews;
  providers: Map<string, Provider>;
  artifacts: ArtifactStore;
  inputs: Inputs;
  storage: Storage;
  urls: NotificationUrls;
  logger: Logger;
}

/** Activities of the Studio queue and of the provider queues. */
export type Activities = JobMoves & ProviderCalls & Assembly;

/** See `Activities`. */
export function createActivities(deps: ActivityDeps): Activities {
  return { ...createJobMoves(deps), ...createProviderCalls(deps), ...createAssembly(deps) };
}
