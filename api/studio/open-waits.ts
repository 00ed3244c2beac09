/**
 * Limits the event streams, long polls and waiting tool calls that are open at the same time
 * ("waits"), per key and per organization. An organization may have at most as many open waits as
 * are still free in the process, so that other organizations always get some.
 */
import { GatewayError } from '../../domain/errors.ts';
import { createFairShare } from '../../platform/fair-share.ts';

interface WaitLimits {
  keyMax: number;
  organizationMax: number;
  processMax: number;
}

/** Caller whose request waits. */
interface WaitingCaller {
  organizationId: string;
  keyId: string;
}

/**
 * Maximum numbers of open waits. A browser tab needs one stream. A process can serve 2,000 idle
 * streams (docs/performance.md).
 */
const limits: WaitLimits = { keyMax: 20, organizationMax: 200, processMax: 2500 };
const retryAfterSeconds = 5;

/** Creates the counter of a process's open waits. */
export function createOpenWaits({ keyMax, organizationMax, processMax } = limits) {
  const counts = new Map<string, number>();
  const shares = createFairShare(processMax);

  function changeCount(id: string, change: 1 | -1): void {
    const count = (counts.get(id) ?? 0) + change;
    if (count === 0) counts.delete(id);
    else counts.set(id, count);
  }

  function checkLimit(id: string, max: number, owner: string): void {
    if ((counts.get(id) ?? 0) < max) return;
    const message = `At most ${max} event streams and waiting requests may be open per ${owner}.`;
    throw new GatewayError('Rate limit exceeded. Please slow down.', message, {
      retryAfterSeconds,
    });
  }

  return {
    /**
     * Counts a wait, and returns the function that ends it.
     * @throws GatewayError 429 if the key or its organization has too many open waits,
     * SERVICE_UNAVAILABLE if the process has no capacity left
     */
    enter({ organizationId, keyId }: WaitingCaller): () => void {
      checkLimit(keyId, keyMax, 'key');
      checkLimit(organizationId, organizationMax, 'organization');
      const release = shares.take(organizationId);
      if (!release) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many event streams are open.', {
          retryAfterSeconds,
        });
      }
      const ids = [keyId, organizationId];
      for (const id of ids) changeCount(id, 1);
      let hasEnded = false;
      return () => {
        if (hasEnded) return;
        hasEnded = true;
        for (const id of ids) changeCount(id, -1);
        release();
      };
    },
  };
}

/** Counter of open waits. */
export type OpenWaits = ReturnType<typeof createOpenWaits>;
