/**
 * Shares a number of slots fairly. An owner is an organization, because an organization can have
 * many keys. An owner may hold at most as many slots as remain free: the first owner at most half
 * of all slots, the second owner at most half of the rest, and so on.
 */

/** Creates the fair shares of this number of slots. */
export function createFairShare(slots: number) {
  const slotsByOwner = new Map<string, number>();
  let takenSlots = 0;

  return {
    /** Returns whether an owner holds at least half of all slots, which is the maximum share. */
    holdsHalf: (owner: string): boolean => (slotsByOwner.get(owner) ?? 0) * 2 >= slots,
    /**
     * Takes a slot. Returns the function that releases the slot. Returns null if the owner may not
     * take another slot.
     */
    take(owner: string): (() => void) | null {
      const ownSlots = slotsByOwner.get(owner) ?? 0;
      if (slots - takenSlots <= ownSlots) return null;
      slotsByOwner.set(owner, ownSlots + 1);
      takenSlots += 1;
      let isReleased = false;
      return () => {
        if (isReleased) return;
        isReleased = true;
        takenSlots -= 1;
        const remainingSlots = (slotsByOwner.get(owner) ?? 1) - 1;
        if (remainingSlots === 0) slotsByOwner.delete(owner);
        else slotsByOwner.set(owner, remainingSlots);
      };
    },
  };
}

export type FairShare = ReturnType<typeof createFairShare>;
