/**
 * Fair shares of a number of slots. An owner is an organization, because it can have many keys. It
 * may hold at most as many slots as remain free: the first owner at most half of the slots, the
 * next one half of the rest, and so on.
 */

/** Creates the shares of `slots` slots. */
export function createFairShare(slots: number) {
  const held = new Map<string, number>();
  let taken = 0;

  return {
    /** Returns whether an owner holds its whole share: at least half of all slots. */
    holdsHalf: (owner: string): boolean => (held.get(owner) ?? 0) * 2 >= slots,
    /**
     * Takes a slot. Returns the function that releases it, or null if the owner may not take
     * another one.
     */
    take(owner: string): (() => void) | null {
      const own = held.get(owner) ?? 0;
      if (slots - taken <= own) return null;
      held.set(owner, own + 1);
      taken += 1;
      let released = false;
      return () => {
        if (released) return;
        released = true;
        taken -= 1;
        const left = (held.get(owner) ?? 1) - 1;
        if (left === 0) held.delete(owner);
        else held.set(owner, left);
      };
    },
  };
}

export type FairShare = ReturnType<typeof createFairShare>;
