/**
 * Places for calls, per provider and process. A worker's task queue counts for itself; a call that is sent
 * from a workflow task must find a place first, or it goes to the queue, where waiting is fair.
 */

/** The places of a process. */
export interface ProviderLimiter {
  /** Takes a place that the task queue has granted; call what it returns to leave. */
  enter: (provider: string) => () => void;
  /** Takes a place if one is free, else null. */
  tryEnter: (provider: string) => (() => void) | null;
}

/** Makes the places: as many at the same time as the task queue of the provider allows. */
export function createProviderLimiter(concurrency: ReadonlyMap<string, number>): ProviderLimiter {
  const taken = new Map<string, number>();
  const count = (provider: string): number => taken.get(provider) ?? 0;
  function enter(provider: string): () => void {
    taken.set(provider, count(provider) + 1);
    let left = false;
    return () => {
      if (!left) taken.set(provider, count(provider) - 1);
      left = true;
    };
  }
  return {
    enter,
    tryEnter: (provider) =>
      count(provider) < (concurrency.get(provider) ?? 0) ? enter(provider) : null,
  };
}
