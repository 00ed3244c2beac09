/**
 * A concurrency limiter that is fair among those who wait: so many at a time, the others in line, and
 * whoever waits for several lets everybody else's next one go first.
 */

/** Makes a limiter with so many places. */
export function createFairLimiter(places: number) {
  /** Who waits → what is called at the turn; the map's order is the rotation. */
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
        // To the back of the rotation, where others wait too.
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
    /** Waits for a place; returns what leaves it, or null when `waitMs` passed before one was free. */
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
