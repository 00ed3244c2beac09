/** Reading JSON artifacts back: results that are too long for a database row or a workflow's history. */
import { buffer } from 'node:stream/consumers';
import type { Json } from '../../domain/json.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import type { Documents } from '../../jobs/job-record.ts';
import type { Storage } from './storage.ts';

/** Loads the JSON artifacts of a job; one that is gone is left out. */
export async function loadDocuments(storage: Storage, outputs: CallOutputs[]): Promise<Documents> {
  const keys = outputs
    .flatMap((output) => output.artifacts)
    .filter((artifact) => artifact.contentType === 'application/json')
    .map((artifact) => artifact.storageKey);
  const loaded = await Promise.all(
    keys.map(async (key): Promise<[string, Json][]> => {
      const object = await storage.open(key);
      return object ? [[key, JSON.parse((await buffer(object.stream)).toString('utf8'))]] : [];
    }),
  );
  return new Map(loaded.flat());
}
