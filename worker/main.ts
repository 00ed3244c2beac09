/** `npm run worker`: a worker process. */
import { knownProviders } from '../activities/providers/registry.ts';
import { runProcess } from '../platform/run-process.ts';
import { startWorkerProcess } from './worker-process.ts';

await runProcess('worker', knownProviders, ({ config, logger, sdkMetricsUrl }) =>
  startWorkerProcess(config, logger, { sdkMetricsUrl }),
);
