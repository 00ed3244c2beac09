/**
 * Byte budgets: limits on the bytes that requests hold at the same time. An owner is an
 * organization, because it can have many keys. It may hold at most half of a budget, and at most as
 * many bytes as remain free for other owners.
 */

interface ByteBudgetLimits {
  /** Maximum bytes held by all owners together. */
  bytesMax: number;
  /**
   * Bytes of each request that count only toward its owner's limit, so that other owners cannot
   * block a small request.
   */
  smallMax?: number;
}

/**
 * Limit that would be exceeded. `owner`: half of the budget for one owner; `free`: the bytes that
 * must remain free.
 */
export type ExceededLimit = 'owner' | 'free';

/** Bytes held by one request. */
export interface ByteHold {
  /** Adds bytes to the hold. If they would exceed a limit, adds nothing and returns that limit. */
  add: (bytes: number) => ExceededLimit | null;
  /** Releases all bytes of the hold. */
  release: () => void;
}

/**
 * Bytes held by an owner: `all` counts toward the owner's limit, `large` toward the shared budget.
 */
interface Held {
  all: number;
  large: number;
}

/** Creates a byte budget. */
export function createByteBudget({ bytesMax, smallMax = 0 }: ByteBudgetLimits) {
  const owners = new Map<string, Held>();
  let largeBytes = 0;
  const countLarge = (bytes: number): number => Math.max(0, bytes - smallMax);

  return {
    /** Opens an empty hold for an owner. */
    open(owner: string): ByteHold {
      let held = 0;
      const heldByOwner = (): Held => owners.get(owner) ?? { all: 0, large: 0 };
      function setHeld(bytes: number): void {
        const before = heldByOwner();
        const addedLarge = countLarge(bytes) - countLarge(held);
        const now = { all: before.all + bytes - held, large: before.large + addedLarge };
        if (now.all === 0) owners.delete(owner);
        else owners.set(owner, now);
        largeBytes += addedLarge;
        held = bytes;
      }
      return {
        add(bytes) {
          const { all, large } = heldByOwner();
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
