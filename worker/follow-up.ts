/** Asking on for jobs that were released without their provider's word, in every worker process. */
import type { LateOutcomes } from '../activities/jobs/late-outcomes.ts';
import type { Logger } from '../platform/logger.ts';
import { repeat } from './repetition.ts';

/** Follows up again and again until the returned function is called. */
export function startFollowUp(deps: {
  outcomes: LateOutcomes;
  intervalMs: number;
  logger: Logger;
}): () => Promise<void> {
  const { outcomes, intervalMs, logger } = deps;
  return repeat(
    async () => {
      await outcomes.followUp().catch((error: unknown) => {
        logger.warn({ error }, 'outcome.follow_up_failed');
      });
    },
    { intervalMs },
  );
}
