/** Worker thread that creates the descriptions of the API, so that the API process serves requests meanwhile. */
import { parentPort, workerData } from 'node:worker_threads';
import { endpoints } from '../endpoints/index.ts';
import { createDescriptions, type DescriptionValues } from './document.ts';

const values: DescriptionValues = workerData;
parentPort?.postMessage(createDescriptions(values, endpoints), []);
