/** All activities, made from what they depend on. Workflows import only the types of this file. */
import type { Config } from '../platform/config.ts';
import { createAssembly, type Assembly } from './calls/assembly.ts';
import { createProviderCalls, type ProviderCalls } from './calls/provider-calls.ts';
import { createJobMoves, type JobMoves } from './jobs/job-moves.ts';
import type { Services } from './services.ts';
import { createDeliveries, type Deliveries, type DeliveryDeps } from './webhooks/delivery.ts';

/** Activities of the Studio queue, of the provider queues and of the webhook queue. */
export type Activities = JobMoves & ProviderCalls & Assembly & Deliveries;

/** Makes the activities; `showJob` shows a job as its callers see it. */
export function createActivities(
  services: Services,
  { config, showJob }: { config: Config; showJob: DeliveryDeps['showJob'] },
): Activities {
  return {
    ...createJobMoves(services),
    ...createProviderCalls(services),
    ...createAssembly(services),
    ...createDeliveries({
      ...services,
      showJob,
      readJob: services.reads.read,
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      retryDelaysMs: config.WEBHOOK_RETRY_DELAYS_MS,
    }),
  };
}
