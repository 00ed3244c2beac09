/** What the API needs to serve: its database, Temporal, its own workers, and somebody at every queue. */
import { sql } from 'slonik';
import { z } from 'zod';
import { providerConcurrency } from '../activities/providers/registry.ts';
import type { Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import type { Readiness } from '../platform/readiness.ts';
import { describeTaskQueue, remembered } from '../platform/task-queues.ts';
import type { connectTemporal } from '../platform/temporal.ts';
import { polledQueues } from '../workflows/contract.ts';

interface ReadinessParts {
  config: Config;
  services: Pick<Services, 'pool'>;
  connection: Awaited<ReturnType<typeof connectTemporal>>;
  /** Null when this process hosts none. */
  workers: { running: () => boolean } | null;
}

/** Probes come often; the server need not be asked each time. */
const pollersAgeMaxMs = 5000;

/** See the file's head. */
export function readinessOf({ config, services, connection, workers }: ReadinessParts): Readiness {
  const { TASK_QUEUE_PREFIX: prefix, TEMPORAL_NAMESPACE: namespace } = config;
  const queues = polledQueues(prefix, Object.keys(providerConcurrency(config)));
  return {
    postgres: async () => {
      await services.pool.query(sql.type(z.object({}))`SELECT 1`);
      return true;
    },
    temporal: async () => {
      await connection.workflowService.getSystemInfo({});
      return true;
    },
    workers: () => Promise.resolve(workers?.running() ?? true),
    pollers: remembered(async () => {
      const states = await Promise.all(
        queues.map((polledQueue) => describeTaskQueue(connection, namespace, polledQueue)),
      );
      return states.every(({ pollers }) => pollers.length > 0);
    }, pollersAgeMaxMs),
  };
}
