/**
 * Limiter that shares its slots fairly between owners (fair-share.ts). Tasks wait for a slot; the
 * owners receive free slots in turn.
 */
import { createFairShare } from './fair-share.ts';

type ReleaseSlot = () => void;
/** Callback of a waiting task; receives the function that releases its slot. */
type Start = (release: ReleaseSlot) => void;

/** Creates a limiter with a number of slots. */
export function createFairLimiter(slots: number) {
  const shares = createFairShare(slots);
  /** Waiting tasks by owner. The first owner of the map gets the next free slot. */
  const waitingTasks = new Map<string, Set<Start>>();

  function remove(owner: string, start: Start): boolean {
    const ownerTasks = waitingTasks.get(owner);
    const wasWaiting = ownerTasks?.delete(start) ?? false;
    if (ownerTasks?.size === 0) waitingTasks.delete(owner);
    return wasWaiting;
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
    // An owner that receives a slot is moved to the end of the map, so the loop visits this owner
    // again. The loop ends when no owner may take another slot.
    for (const [owner, ownerTasks] of waitingTasks) {
      const release = take(owner);
      if (!release) continue;
      waitingTasks.delete(owner);
      waitingTasks.set(owner, ownerTasks);
      for (const start of ownerTasks) {
        remove(owner, start);
        start(release);
        break;
      }
    }
  }

  return {
    /**
     * Waits for a slot. Returns the function that releases the slot. Returns null if the owner
     * received no slot within `waitMs` milliseconds.
     */
    async enter(owner: string, waitMs: number): Promise<ReleaseSlot | null> {
      const release = waitingTasks.has(owner) ? null : take(owner);
      if (release) return release;
      const { promise, resolve } = Promise.withResolvers<ReleaseSlot | null>();
      const ownerTasks = waitingTasks.get(owner) ?? new Set();
      waitingTasks.set(owner, ownerTasks.add(resolve));
      const timer = setTimeout(() => {
        if (remove(owner, resolve)) resolve(null);
      }, waitMs);
      const releaseSlot = await promise;
      clearTimeout(timer);
      return releaseSlot;
    },
  };
}
