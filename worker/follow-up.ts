/** Asking on for jobs that were released without their provider's word, in every worker process. */
import { setTimeout as delay } from 'node:timers/promises';
import type { LateOutcomes } from '../activities/oversight/late-outcomes.ts';
import type { Logger } from '../platform/logger.ts';

/** Follows up again and again until the returned function is called. */
export function startFollowUp(deps: {
  outcomes: LateOutcomes;
  intervalMs: number;
  logger: Logger;
}): () => Promise<void> {
  const stopping = new AbortController();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await deps.outcomes.followUp().catch((error: unknown) => {
        deps.logger.warn({ error }, 'outcome.follow_up_failed');
      });
      await delay(deps.intervalMs, undefined, { signal: stopping.signal, ref: false }).catch(
        () => {},
      );
    }
  })();
  return async () => {
    stopping.abort();
    await running;
  };
}
