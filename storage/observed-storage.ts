/** Counts successful and failed writes to the storage, so that an alert can report failures. */
import type { Metrics } from '../platform/metrics.ts';
import type { Storage } from './storage.ts';

/** Wraps a storage so that every `put` is counted by its outcome. */
export function observeStorage(
  storage: Storage,
  { storageWrites }: Pick<Metrics, 'storageWrites'>,
): Storage {
  return {
    ...storage,
    async put(key, spoolPath) {
      try {
        const outcome = await storage.put(key, spoolPath);
        storageWrites.inc({ outcome: 'ok' });
        return outcome;
      } catch (error) {
        storageWrites.inc({ outcome: 'failed' });
        throw error;
      }
    },
  };
}
