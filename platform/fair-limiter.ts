/**
 * Concurrency limiter that is fair between owners: an owner with several waiting tasks runs its
 * next one after the next task of each other owner.
 */

/** Makes a limiter with a number of slots. */
export function createFairLimiter(places: number) {
  /** Waiting tasks by owner; the order of the map is the rotation. */
  const lines = new Map<string, Set<() => void>>();
  let taken = 0;

  function remove(who: string, call: () => void): boolean {
    const line = lines.get(who);
    const waited = line?.delete(call) ?? false;
    if (line?.size === 0) lines.delete(who);
    return waited;
  }

  function callNext(): void {
    for (const [who, line] of lines) {
      for (const call of line) {
        // The owner moves to the end of the rotation.
        lines.delete(who);
        lines.set(who, line);
        remove(who, call);
        call();
        return;
      }
    }
  }

  function take(): () => void {
    let left = false;
    taken += 1;
    return () => {
      if (left) return;
      left = true;
      taken -= 1;
      callNext();
    };
  }

  return {
    /**
     * Waits for a slot. Returns the function that releases it; null if none was free within
     * `waitMs`.
     */
    async enter(who: string, waitMs: number): Promise<(() => void) | null> {
      if (taken < places) return take();
      const { promise, resolve } = Promise.withResolvers<(() => void) | null>();
      const call = (): void => resolve(take());
      const line = lines.get(who) ?? new Set();
      lines.set(who, line.add(call));
      const timer = setTimeout(() => {
        if (remove(who, call)) resolve(null);
      }, waitMs);
      const leave = await promise;
      clearTimeout(timer);
      return leave;
    },
  };
}
