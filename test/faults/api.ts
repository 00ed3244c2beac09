/** The API process of the fault tests: api/main.ts, stopped at the points that the tests name. */
import { startApi } from '../../api/server.ts';
import { knownProviders } from '../../process/run-process.ts';
import { loadConfigOrExit } from '../../platform/config.ts';
import { createLogger } from '../../platform/logger.ts';
import { assertSchemaCurrent } from '../../platform/migrations.ts';
import { announceReady, drainOnExit } from '../../process/run-process.ts';
import { stopAnswers, stopStarts } from './points.ts';

const config = loadConfigOrExit(knownProviders);
const logger = createLogger('api', config.LOG_LEVEL);
await assertSchemaCurrent(config.DATABASE_URL);
stopAnswers();
const api = await startApi({ config, logger });
stopStarts(api.client);
drainOnExit(() => api.close(), 45_000);
announceReady({ port: api.port });
