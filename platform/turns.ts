/**
 * Turns: so many at a time, the others in a queue. Whoever waits for several lets everybody else's next
 * one go first. How many at a time follows from how long a turn takes: more of them only make each other
 * late, so slow turns make fewer and quick ones more, up to the most that is allowed.
 */

/** See the file's head. */
export interface Turns {
  /** Waits for a turn; returns what ends it, or null when `waitMs` passed before it came. */
  take: (who: string, waitMs: number) => Promise<(() => void) | null>;
}

interface TurnsOptions {
  atOnceMax: number;
  /** A turn that takes longer is slow. */
  slowMs: number;
}

/** With so many at a time it begins: nobody knows yet how long a turn takes. */
const atOnceFirst = 16;
const atOnceMin = 2;
/** What a slow turn leaves of the number; one for each of them would leave nothing. */
const shrinkFactor = 0.7;
const growthPerTurn = 0.5;

/** Makes turns. */
export function createTurns({ atOnceMax, slowMs }: TurnsOptions): Turns {
  const waiting = createQueue();
  let atOnce = Math.min(atOnceMax, atOnceFirst);
  let taken = 0;
  let shrunkAtMs = -Infinity;

  /** Learns from a turn. A quick one says that more would do only while others wait for theirs. */
  function learn(startedAtMs: number): void {
    const nowMs = performance.now();
    if (nowMs - startedAtMs > slowMs) {
      if (nowMs - shrunkAtMs < slowMs) return;
      shrunkAtMs = nowMs;
      atOnce = Math.max(Math.min(atOnceMin, atOnceMax), atOnce * shrinkFactor);
    } else if (waiting.length() > 0) atOnce = Math.min(atOnceMax, atOnce + growthPerTurn);
  }
  function begin(): () => void {
    const startedAtMs = performance.now();
    let ended = false;
    taken += 1;
    return () => {
      if (ended) return;
      ended = true;
      taken -= 1;
      learn(startedAtMs);
      while (taken < Math.floor(atOnce) && waiting.callNext());
    };
  }
  return {
    async take(who, waitMs) {
      if (taken < Math.floor(atOnce)) return begin();
      const { promise, resolve } = Promise.withResolvers<(() => void) | null>();
      const leave = waiting.join(who, () => resolve(begin()));
      const timer = setTimeout(() => {
        if (leave()) resolve(null);
      }, waitMs);
      const end = await promise;
      clearTimeout(timer);
      return end;
    },
  };
}

interface Queue {
  /** Stands in line; `call` is called when it is the turn. Returns what leaves: false when too late. */
  join: (who: string, call: () => void) => () => boolean;
  /** Calls the next; false when nobody waits. */
  callNext: () => boolean;
  length: () => number;
}

/** One line for each who waits, called in rotation. */
function createQueue(): Queue {
  const lines = new Map<string, Set<() => void>>();
  let length = 0;

  function remove(who: string, call: () => void): boolean {
    const line = lines.get(who);
    if (!line?.delete(call)) return false;
    length -= 1;
    if (line.size === 0) lines.delete(who);
    return true;
  }
  return {
    join(who, call) {
      const line = lines.get(who) ?? new Set();
      lines.set(who, line.add(call));
      length += 1;
      return () => remove(who, call);
    },
    callNext() {
      for (const [who, line] of lines) {
        for (const call of line) {
          // To the back of the rotation, where others wait too.
          lines.delete(who);
          lines.set(who, line);
          remove(who, call);
          call();
          return true;
        }
      }
      return false;
    },
    length: () => length,
  };
}
