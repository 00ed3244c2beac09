/** Worker thread of document.ts: converts JSON to YAML. */
import { parentPort, workerData } from 'node:worker_threads';
import { stringify } from 'yaml';

parentPort?.postMessage(stringify(JSON.parse(String(workerData))), []);
