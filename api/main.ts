/** Starts the API process: `node api/main.ts`. */
import { runProcess } from '../process/run-process.ts';
import { startApi } from './server.ts';

await runProcess('api', startApi);
