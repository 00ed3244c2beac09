/** The worker process: Studio and provider workers, and the sweeper. */
import { Client } from '@temporalio/client';
import { createInbox } from '../activities/notifications.ts';
import { createNotificationRelay } from '../activities/notification-relay.ts';
import { openServices, type Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import { dataConverterOf } from '../platform/payload-codec.ts';
import { connectTemporal, registerSearchAttributes } from '../platform/temporal.ts';
import { notificationSignalName, searchAttributes, workflowIdOf } from '../workflows/contract.ts';
import { startStudioWorkers } from './studio-worker.ts';
import { createSweeper, type Sweeper } from './sweeper.ts';

/** A running worker process. */
export interface WorkerProcess {
  services: Services;
  sweeper: Sweeper;
  /** Rejects when a worker fails. */
  failed: Promise<void>;
  close: () => Promise<void>;
}

/** Starts the workers; they poll when this returns. */
export async function startWorkerProcess(config: Config, logger: Logger): Promise<WorkerProcess> {
  const services = await openServices(config, logger);
  const connection = await connectTemporal(config, logger);
  await registerSearchAttributes(
    connection,
    config.TEMPORAL_NAMESPACE,
    Object.values(searchAttributes),
  );
  const client = new Client({
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    dataConverter: dataConverterOf(config),
  });
  const relay = createNotificationRelay({
    client,
    inbox: createInbox(services.pool),
    logger,
    signalName: notificationSignalName,
    workflowIdOf,
  });
  const sweeper = createSweeper({ config, services, client, relay });
  const workers = await startStudioWorkers({ config, connection, services });
  const stopSweeping = sweeper.start();
  logger.info('worker.polling');
  return {
    services,
    sweeper,
    failed: workers.done,
    async close() {
      workers.shutdown();
      await workers.done.catch(() => {});
      await stopSweeping();
      await services.pool.end();
      await connection.close();
    },
  };
}
