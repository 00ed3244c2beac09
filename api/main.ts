/** `node api/main.ts`: the API process. */
import { knownProviders } from '../providers/registry.ts';
import { runProcess } from '../platform/run-process.ts';
import { startApi } from './server.ts';

await runProcess('api', knownProviders, startApi);
