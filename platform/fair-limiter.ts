/**
 * Concurrency limiter with fair shares (fair-share.ts). Tasks wait for a slot; owners receive
 * free slots in rotation.
 */
import { createFairShare } from './fair-share.ts';

type Leave = () => void;
/** Waiting task, which receives the function that releases its slot. */
type Start = (leave: Leave) => void;

/** Makes a limiter with a number of slots. */
export function createFairLimiter(slots: number) {
  const shares = createFairShare(slots);
  /** Waiting tasks by owner; the order of the map is the rotation. */
  const lines = new Map<string, Set<Start>>();

  function remove(owner: string, start: Start): boolean {
    const line = lines.get(owner);
    const waited = line?.delete(start) ?? false;
    if (line?.size === 0) lines.delete(owner);
    return waited;
  }

  function take(owner: string): Leave | null {
    const release = shares.take(owner);
    if (!release) return null;
    return () => {
      release();
      startNext();
    };
  }

  function startNext(): void {
    // An owner that receives a slot moves to the end of the map and is visited again in the same
    // loop, which ends when no owner may take another slot.
    for (const [owner, line] of lines) {
      const leave = take(owner);
      if (!leave) continue;
      lines.delete(owner);
      lines.set(owner, line);
      for (const start of line) {
        remove(owner, start);
        start(leave);
        break;
      }
    }
  }

  return {
    /**
     * Waits for a slot. Returns the function that releases it; null if the owner could take none
     * within `waitMs` milliseconds.
     */
    async enter(owner: string, waitMs: number): Promise<Leave | null> {
      const leave = lines.has(owner) ? null : take(owner);
      if (leave) return leave;
      const { promise, resolve } = Promise.withResolvers<Leave | null>();
      const line = lines.get(owner) ?? new Set();
      lines.set(owner, line.add(resolve));
      const timer = setTimeout(() => {
        if (remove(owner, resolve)) resolve(null);
      }, waitMs);
      const entered = await promise;
      clearTimeout(timer);
      return entered;
    },
  };
}
