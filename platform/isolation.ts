/** Loop over items in which a failed item does not stop the others. */
import type { Logger } from './logger.ts';

/**
 * Numbers of completed items, and of failed or skipped items, which the next pass handles again.
 */
export interface Isolated {
  done: number;
  skipped: number;
}

interface IsolationOptions {
  /** Kind of the items in the log: `reservation`, `upload`. */
  subject: string;
  logger: Logger;
}

/**
 * Maximum total time of failed items. If all of them wait for an unreachable server, the remaining
 * items are skipped.
 */
const failingMaxMs = 10_000;

/**
 * Runs a function for one item after the other. A failed item is logged with its `id`, counted and
 * skipped. After the time limit, the remaining items are skipped.
 */
export async function forEachAlone<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  run: (thing: Thing) => Promise<unknown>,
  { subject, logger }: IsolationOptions,
): Promise<Isolated> {
  const report: Isolated = { done: 0, skipped: 0 };
  let failingMs = 0;
  for (const [index, thing] of things.entries()) {
    const startedAtMs = performance.now();
    try {
      await run(thing);
      report.done += 1;
    } catch (error) {
      report.skipped += 1;
      failingMs += performance.now() - startedAtMs;
      logger.warn({ error, subject, subjectId: thing.id }, 'sweeper.skipped');
      if (failingMs < failingMaxMs) continue;
      report.skipped += things.length - index - 1;
      return report;
    }
  }
  return report;
}
