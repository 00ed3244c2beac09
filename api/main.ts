/** `npm run api`: the API process. */
import { startStudioWorkers } from '../worker/studio-worker.ts';
import { knownProviders } from '../activities/providers/registry.ts';
import { runProcess } from '../platform/run-process.ts';
import { startApi } from './server.ts';

await runProcess('api', knownProviders, (parts) =>
  startApi({ ...parts, startWorkers: parts.config.API_WORKER ? startStudioWorkers : null }),
);
