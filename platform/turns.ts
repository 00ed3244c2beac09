/** Turns: so many at a time, the others in the order in which they came. */

/** See the file's head. */
export interface Turns {
  /** Waits for a turn; returns what ends it, or null when `waitMs` passed before it came. */
  take: (waitMs: number) => Promise<(() => void) | null>;
}

/** Makes turns for `atOnce` at a time. */
export function createTurns(atOnce: number): Turns {
  /** In order; a call tells whose turn it is. */
  const waiting = new Set<() => void>();
  let taken = 0;

  /** Ends a turn: it goes to the next in the queue, if there is one. */
  function end(): void {
    const [next] = waiting;
    if (next) {
      waiting.delete(next);
      next();
    } else taken -= 1;
  }
  function endOnce(): () => void {
    let ended = false;
    return () => {
      if (!ended) end();
      ended = true;
    };
  }
  return {
    async take(waitMs) {
      if (taken < atOnce) {
        taken += 1;
        return endOnce();
      }
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const come = (): void => resolve(true);
      waiting.add(come);
      const timer = setTimeout(() => {
        if (waiting.delete(come)) resolve(false);
      }, waitMs);
      const mine = await promise;
      clearTimeout(timer);
      return mine ? endOnce() : null;
    },
  };
}
