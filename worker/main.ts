/** `npm run worker`: a worker process. */
import { registerProcess } from '../platform/process-register.ts';
import { knownProviders } from '../activities/providers/registry.ts';
import { loadConfigOrExit } from '../platform/config.ts';
import { createLogger } from '../platform/logger.ts';
import { assertSchemaCurrent } from '../platform/migrations.ts';
import { announceReady, drainOnExit } from '../platform/process-life.ts';
import { installMeasuredRuntime } from '../platform/temporal.ts';
import { startWorkerProcess } from './worker-process.ts';

const drainTimeoutMs = 45_000;

const config = loadConfigOrExit(knownProviders);
const logger = createLogger('worker', config.LOG_LEVEL);
const sdkMetricsUrl = await installMeasuredRuntime(logger, config);
await assertSchemaCurrent(config.DATABASE_URL);
const worker = await startWorkerProcess(config, logger, { sdkMetricsUrl });
const drain = drainOnExit(async () => {
  await leave();
  await worker.close();
}, drainTimeoutMs);
const leave = registerProcess({
  pool: worker.services.pool,
  logger,
  kind: 'worker',
  buildId: config.WORKER_BUILD_ID ?? null,
  onDrain: drain,
});
worker.failed.catch((error: unknown) => {
  logger.fatal({ error }, 'worker.failed');
  process.exit(1);
});
announceReady({ metricsPort: worker.metricsPort });
