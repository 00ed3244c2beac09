/** The leased budgets of this process, one per organization that chats a lot. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ChatLease, type ChatFunds, type LeaseParts } from './chat-lease.ts';
import type { ChatReserve } from './chat-ledger.ts';

/** Leased budgets. */
export interface ChatLeases {
  /** Pays a chat from a lease; null where it must be reserved in the ledger. */
  take: (reserve: ChatReserve) => ChatFunds | null;
  /** Somebody needs the credits of this organization. */
  recall: (organizationId: string) => void;
  /** Ends when everything is booked and given back, or cannot be for long. */
  close: () => Promise<void>;
}

/** Chats that ended within this time share a move. */
const gatherMs = 25;
const closeTimeoutMs = 15_000;

/** See the file's head. */
export function createChatLeases(parts: LeaseParts): ChatLeases {
  const leases = new Map<string, ChatLease>();
  let closing = false;
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    for (const [organizationId, lease] of leases) {
      lease.tick(closing);
      if (lease.over) leases.delete(organizationId);
    }
    timer = leases.size > 0 ? setTimeout(tick, gatherMs) : undefined;
  }

  return {
    take(reserve) {
      if (closing) return null;
      let lease = leases.get(reserve.organizationId);
      if (!lease) {
        lease = new ChatLease(parts, reserve.organizationId);
        leases.set(reserve.organizationId, lease);
      }
      timer ??= setTimeout(tick, gatherMs);
      return lease.take(reserve);
    },
    recall: (organizationId) => leases.get(organizationId)?.recall(),
    async close() {
      closing = true;
      const deadline = performance.now() + closeTimeoutMs;
      while ([...leases.values()].some((lease) => lease.open) && performance.now() < deadline) {
        await sleep(gatherMs);
      }
      closing = false;
    },
  };
}
