/**
 * Concurrency limiter that shares its slots fairly between owners (fair-share.ts). Tasks wait for a
 * slot; free slots go to the owners in turn.
 */
import { createFairShare } from './fair-share.ts';

type ReleaseSlot = () => void;
/** Callback of a waiting task; receives the function that releases its slot. */
type Start = (release: ReleaseSlot) => void;

/** Creates a limiter with a number of slots. */
export function createFairLimiter(slots: number) {
  const shares = createFairShare(slots);
  /** Waiting tasks by owner. The first owner of the map gets the next free slot. */
  const lines = new Map<string, Set<Start>>();

  function remove(owner: string, start: Start): boolean {
    const line = lines.get(owner);
    const waited = line?.delete(start) ?? false;
    if (line?.size === 0) lines.delete(owner);
    return waited;
  }

  function take(owner: string): ReleaseSlot | null {
    const releaseShare = shares.take(owner);
    if (!releaseShare) return null;
    return () => {
      releaseShare();
      startNext();
    };
  }

  function startNext(): void {
    // An owner that receives a slot moves to the end of the map, so the loop visits it again. The
    // loop ends when no owner may take another slot.
    for (const [owner, line] of lines) {
      const release = take(owner);
      if (!release) continue;
      lines.delete(owner);
      lines.set(owner, line);
      for (const start of line) {
        remove(owner, start);
        start(release);
        break;
      }
    }
  }

  return {
    /**
     * Waits for a slot. Returns the function that releases it, or null if no slot became available
     * to the owner within `waitMs` milliseconds.
     */
    async enter(owner: string, waitMs: number): Promise<ReleaseSlot | null> {
      const release = lines.has(owner) ? null : take(owner);
      if (release) return release;
      const { promise, resolve } = Promise.withResolvers<ReleaseSlot | null>();
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
