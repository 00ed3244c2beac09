/**
 * Byte budgets: bounds on the bytes that requests hold at the same time. An owner (an organization,
 * because it can have many keys) holds at most half of a budget, and at most as many bytes as stay
 * free for other owners.
 */

interface ByteBudgetLimits {
  /** Bytes of all owners together. */
  bytesMax: number;
  /**
   * Bytes of each hold that count only for its owner, so that other owners cannot block a small
   * request.
   */
  smallMax?: number;
}

/**
 * Exceeded bound: `owner`: half of the budget for one owner; `free`: the bytes that must stay free.
 */
export type ExceededBound = 'owner' | 'free';

/** Bytes that one request holds. */
export interface ByteHold {
  /**
   * Adds bytes to the hold. If they would exceed a bound, it adds nothing and returns that bound.
   */
  add: (bytes: number) => ExceededBound | null;
  /** Releases all bytes of the hold. */
  release: () => void;
}

/**
 * Bytes that an owner holds: `all` of them, and the `large` part that counts for the shared budget.
 */
interface Held {
  all: number;
  large: number;
}

/** Makes a budget. */
export function createByteBudget({ bytesMax, smallMax = 0 }: ByteBudgetLimits) {
  const owners = new Map<string, Held>();
  let largeBytes = 0;
  const largeOf = (bytes: number): number => Math.max(0, bytes - smallMax);

  return {
    /** Opens an empty hold for an owner. */
    open(owner: string): ByteHold {
      let held = 0;
      const ofOwner = (): Held => owners.get(owner) ?? { all: 0, large: 0 };
      function hold(bytes: number): void {
        const before = ofOwner();
        const larger = largeOf(bytes) - largeOf(held);
        const now = { all: before.all + bytes - held, large: before.large + larger };
        if (now.all === 0) owners.delete(owner);
        else owners.set(owner, now);
        largeBytes += larger;
        held = bytes;
      }
      return {
        add(bytes) {
          const { all, large } = ofOwner();
          if (all + bytes > bytesMax / 2) return 'owner';
          const larger = largeOf(held + bytes) - largeOf(held);
          if (larger > 0 && large + larger > bytesMax - largeBytes - larger) return 'free';
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
