/**
 * Limits the bytes that requests hold at the same time (byte budget). An owner is an organization,
 * because an organization can have many keys. An owner may hold at most half of the budget, and at
 * most as many bytes as remain free for the other owners.
 */

interface ByteBudgetLimits {
  /** Maximum bytes held by all owners together. */
  bytesMax: number;
  /**
   * Number of bytes of each request that count only toward the limit of its owner. Other owners
   * therefore cannot block a small request.
   */
  smallMax?: number;
}

/**
 * Limit that a request would exceed. `owner`: the half of the budget that one owner may hold;
 * `free`: the bytes that must remain free for other owners.
 */
export type ExceededLimit = 'owner' | 'free';

/** Bytes held by one request. */
export interface ByteHold {
  /** Adds bytes to the held ones. If they would exceed a limit, adds none and returns the limit. */
  add: (bytes: number) => ExceededLimit | null;
  /** Releases all bytes that the request holds. */
  release: () => void;
}

/** Bytes of an owner: `all` counts toward the owner's limit, `large` toward the shared budget. */
interface HeldBytes {
  all: number;
  large: number;
}

/** Creates a byte budget. */
export function createByteBudget({ bytesMax, smallMax = 0 }: ByteBudgetLimits) {
  const owners = new Map<string, HeldBytes>();
  let largeBytes = 0;
  const countLarge = (bytes: number): number => Math.max(0, bytes - smallMax);

  return {
    /** Starts to count the bytes that one request of an owner holds. */
    open(owner: string): ByteHold {
      let held = 0;
      const getOwnerBytes = (): HeldBytes => owners.get(owner) ?? { all: 0, large: 0 };
      function setHeld(bytes: number): void {
        const previous = getOwnerBytes();
        const addedLarge = countLarge(bytes) - countLarge(held);
        const current = { all: previous.all + bytes - held, large: previous.large + addedLarge };
        if (current.all === 0) owners.delete(owner);
        else owners.set(owner, current);
        largeBytes += addedLarge;
        held = bytes;
      }
      return {
        add(bytes) {
          const { all, large } = getOwnerBytes();
          if (all + bytes > bytesMax / 2) return 'owner';
          const addedLarge = countLarge(held + bytes) - countLarge(held);
          const freeBytes = bytesMax - largeBytes - addedLarge;
          if (addedLarge > 0 && large + addedLarge > freeBytes) return 'free';
          setHeld(held + bytes);
          return null;
        },
        release: () => setHeld(0),
      };
    },
  };
}

export type ByteBudget = ReturnType<typeof createByteBudget>;
