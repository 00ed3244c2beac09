/** The worker process of the fault tests: worker/main.ts, stopped at the points that the tests name. */
import { knownProviders } from '../../process/run-process.ts';
import { loadConfigOrExit } from '../../platform/config.ts';
import { createLogger } from '../../platform/logger.ts';
import { assertSchemaCurrent } from '../../platform/migrations.ts';
import { announceReady, drainOnExit } from '../../process/run-process.ts';
import { installRuntime } from '../../worker/runtime.ts';
import { startWorkerProcess } from '../../worker/worker-process.ts';
import { stopActivities } from './points.ts';

const config = loadConfigOrExit(knownProviders);
const logger = createLogger('worker', config.LOG_LEVEL);
installRuntime(logger);
await assertSchemaCurrent(config.DATABASE_URL);
const worker = await startWorkerProcess(config, logger);
stopActivities(worker.services);
drainOnExit(() => worker.close(), 45_000);
worker.failed.catch(() => process.exit(1));
announceReady();
