/**
 * Byte budgets: bounds on the bytes that requests hold at the same time, for each owner and for the process. An owner
 * is an organization, because one organization can have many keys.
 */

interface ByteBudgetLimits {
  /** Bytes of one owner. */
  ownerMax: number;
  /** Bytes of all owners together. */
  processMax: number;
  /** Bytes of each hold that do not count for the process, so that other owners cannot block a small request. */
  smallMax?: number;
}

/** The bound that further bytes would exceed. */
export type ExceededBound = 'owner' | 'process';

/** Bytes that one request holds. */
export interface ByteHold {
  /** Adds bytes to the hold. If they would exceed a bound, it adds nothing and returns that bound. */
  add: (bytes: number) => ExceededBound | null;
  /** Releases all bytes of the hold. */
  release: () => void;
}

/** Makes a budget. */
export function createByteBudget({ ownerMax, processMax, smallMax = 0 }: ByteBudgetLimits) {
  const ownerBytes = new Map<string, number>();
  let processBytes = 0;
  const largeBytes = (bytes: number): number => Math.max(0, bytes - smallMax);

  return {
    /** Opens an empty hold for an owner. */
    open(owner: string): ByteHold {
      let held = 0;
      function hold(bytes: number): void {
        const ofOwner = (ownerBytes.get(owner) ?? 0) + bytes - held;
        if (ofOwner === 0) ownerBytes.delete(owner);
        else ownerBytes.set(owner, ofOwner);
        processBytes += largeBytes(bytes) - largeBytes(held);
        held = bytes;
      }
      return {
        add(bytes) {
          if ((ownerBytes.get(owner) ?? 0) + bytes > ownerMax) return 'owner';
          const larger = largeBytes(held + bytes) - largeBytes(held);
          if (larger > 0 && processBytes + larger > processMax) return 'process';
          hold(held + bytes);
          return null;
        },
        release: () => hold(0),
      };
    },
  };
}

/** A budget of bytes. */
export type ByteBudget = ReturnType<typeof createByteBudget>;
