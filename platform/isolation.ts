/** Runs a function for many items, so that a failed item does not stop the others. */
import type { Logger } from './logger.ts';

/**
 * Number of completed items, and of failed or skipped items. The next pass handles the latter
 * again.
 */
export interface Isolated {
  done: number;
  skipped: number;
}

interface IsolationOptions {
  /** Kind of item in the log, e.g. `reservation` or `upload`. */
  subject: string;
  logger: Logger;
}

/**
 * Maximum total time spent on failed items. If all of them wait for an unreachable server, the
 * remaining items are skipped.
 */
const failingMaxMs = 10_000;

/**
 * Runs a function for one item after the other. Logs a failed item with its `id` and continues;
 * skips the remaining items once failures have taken too long in total.
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
