/** `node worker/main.ts`: a worker process. */
import { runProcess } from '../process/run-process.ts';
import { installMeasuredRuntime } from './runtime.ts';
import { startWorkerProcess } from './worker-process.ts';

await runProcess('worker', async ({ config, logger }) => {
  const sdkMetricsUrl = await installMeasuredRuntime(logger, config);
  return startWorkerProcess(config, logger, { sdkMetricsUrl });
});
