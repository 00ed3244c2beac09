/**
 * Divides units of a resource (places, connections, bytes) between owners. An owner is an
 * organization, because an organization can have many keys, or an address where nobody is signed
 * in. One rule (docs/decisions/0009-isolation.md): an owner holds at most as much as stays free.
 * The first owner gets at most half, the second one half of the rest, and so on.
 */

/**
 * Limit that an owner would exceed. `owner`: the half that one owner may hold at most; `free`: the
 * units that must stay free for other owners.
 */
export type ExceededLimit = 'owner' | 'free';

/** Units held by one task of an owner. */
export interface Hold {
  /** Adds units to the held ones. If they would exceed a limit, adds none and returns the limit. */
  add: (units: number) => ExceededLimit | null;
  /** Adds units that exist already, even beyond the limits. */
  force: (units: number) => void;
  /** Releases all units of this hold. */
  release: () => void;
}

type Release = () => void;
/** Callback of a waiting task; receives the function that releases its unit. */
type Start = (release: Release) => void;

/** Units of an owner: `all` counts toward the owner's half, `large` toward what stays free. */
interface HeldUnits {
  all: number;
  large: number;
}

export type Shares = ReturnType<typeof createShares>;

/**
 * Creates the shares of a number of units. The first `smallMax` units of each hold count only
 * toward the half of their owner, so that other owners cannot block a small hold.
 */
export function createShares(total: number, smallMax = 0) {
  const owners = new Map<string, HeldUnits>();
  let largeUnits = 0;
  const countLarge = (units: number): number => Math.max(0, units - smallMax);
  const getHeld = (owner: string): HeldUnits => owners.get(owner) ?? { all: 0, large: 0 };

  function open(owner: string): Hold {
    let held = 0;
    function setHeld(units: number): void {
      const { all, large } = getHeld(owner);
      const addedLarge = countLarge(units) - countLarge(held);
      const current = { all: all + units - held, large: large + addedLarge };
      if (current.all === 0) owners.delete(owner);
      else owners.set(owner, current);
      largeUnits += addedLarge;
      held = units;
    }
    return {
      add(units) {
        const { all, large } = getHeld(owner);
        // An odd unit goes to the owner that takes it, so that a single unit can be used.
        if (2 * (all + units) > total + 1) return 'owner';
        const addedLarge = countLarge(held + units) - countLarge(held);
        const freeUnits = total - largeUnits - addedLarge;
        if (addedLarge > 0 && large + addedLarge > freeUnits + 1) return 'free';
        setHeld(held + units);
        return null;
      },
      force: (units) => setHeld(held + units),
      release() {
        if (held === 0) return;
        setHeld(0);
        queue.startWaiting();
      },
    };
  }

  function take(owner: string): Release | null {
    const hold = open(owner);
    return hold.add(1) === null ? hold.release : null;
  }

  const queue = createQueue(take);
  return {
    /** Starts to count the units that one task of an owner holds. */
    open,
    /** Takes one unit. Returns the function that releases it, or null if the owner has its share. */
    take: (owner: string): Release | null => (queue.isWaiting(owner) ? null : take(owner)),
    /** Returns the number of units that an owner holds. */
    countHeld: (owner: string): number => getHeld(owner).all,
    /**
     * Waits for one unit; owners take turns. Returns the function that releases the unit. Returns
     * null if the owner received none within `waitMs` milliseconds.
     */
    enter: (owner: string, waitMs: number): Promise<Release | null> => queue.enter(owner, waitMs),
  };
}

/** Creates the queue of the tasks that wait for a unit, which `take` takes for an owner. */
function createQueue(take: (owner: string) => Release | null) {
  /** Waiting tasks by owner. The first owner of the map gets the next free unit. */
  const waitingTasks = new Map<string, Set<Start>>();

  function remove(owner: string, start: Start): boolean {
    const ownerTasks = waitingTasks.get(owner);
    const wasWaiting = ownerTasks?.delete(start) ?? false;
    if (ownerTasks?.size === 0) waitingTasks.delete(owner);
    return wasWaiting;
  }

  return {
    isWaiting: (owner: string): boolean => waitingTasks.has(owner),

    startWaiting(): void {
      // An owner that receives a unit is moved to the end of the map, so the loop visits this owner
      // again. The loop ends when no owner may take another unit.
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
    },

    async enter(owner: string, waitMs: number): Promise<Release | null> {
      const release = waitingTasks.has(owner) ? null : take(owner);
      if (release) return release;
      const { promise, resolve } = Promise.withResolvers<Release | null>();
      const ownerTasks = waitingTasks.get(owner) ?? new Set();
      waitingTasks.set(owner, ownerTasks.add(resolve));
      const timer = setTimeout(() => {
        if (remove(owner, resolve)) resolve(null);
      }, waitMs);
      const releaseUnit = await promise;
      clearTimeout(timer);
      return releaseUnit;
    },
  };
}
