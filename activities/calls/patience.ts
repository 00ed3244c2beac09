/** Waiting for a database that is away, where giving up would lose what a provider was paid for. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseAway } from '../../platform/database.ts';

/** Longer than any restart of Postgres; a longer outage is left to the retries of the workflow. */
const patienceMs = 120_000;
const waitMaxMs = 2000;

/**
 * Runs a step again while the database is away.
 * @throws what the step throws, once the patience is at its end
 */
export async function outlastOutage<Result>(step: () => Promise<Result>): Promise<Result> {
  const deadlineAt = performance.now() + patienceMs;
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, waitMaxMs)) {
    try {
      return await step();
    } catch (error) {
      if (performance.now() + waitMs > deadlineAt || !isDatabaseAway(error)) throw error;
    }
    await sleep(waitMs);
  }
}
