/** `npm run api`: the API process. */
import { registerProcess } from '../platform/process-register.ts';
import { startStudioWorkers } from '../worker/studio-worker.ts';
import { knownProviders } from '../activities/providers/registry.ts';
import { loadConfigOrExit } from '../platform/config.ts';
import { createLogger } from '../platform/logger.ts';
import { assertSchemaCurrent } from '../platform/migrations.ts';
import { announceReady, drainOnExit } from '../platform/process-life.ts';
import { installMeasuredRuntime } from '../platform/temporal.ts';
import { startApi } from './server.ts';

const drainTimeoutMs = 45_000;

const config = loadConfigOrExit(knownProviders);
const logger = createLogger('api', config.LOG_LEVEL);
const sdkMetricsUrl = await installMeasuredRuntime(logger, config);
await assertSchemaCurrent(config.DATABASE_URL);
const api = await startApi({
  config,
  logger,
  startWorkers: config.API_WORKER ? startStudioWorkers : null,
  sdkMetricsUrl,
});
const drain = drainOnExit(async () => {
  await leave();
  await api.close();
}, drainTimeoutMs);
const leave = registerProcess({
  pool: api.services.pool,
  logger,
  kind: 'api',
  buildId: config.WORKER_BUILD_ID ?? null,
  onDrain: drain,
});
api.failed.catch((error: unknown) => {
  // A worker that fails does not come back by itself: the supervisor starts a new process.
  logger.fatal({ error }, 'worker.failed');
  process.exit(1);
});
announceReady({ port: api.port, metricsPort: api.metricsPort });
