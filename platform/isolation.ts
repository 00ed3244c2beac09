/** Loops over items of which one failure must not stop the others. */
import type { Logger } from './logger.ts';

/** Number of completed items, and of failed or skipped ones, which are left for the next pass. */
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
 * Longest time of failing items: if all of them wait for a server that is away, the rest is
 * skipped.
 */
const failingMaxMs = 10_000;

/**
 * Handles one item after the other. A failed item is logged by its `id`, counted and skipped. After
 * the time limit the rest is skipped as well.
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
