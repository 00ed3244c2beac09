/** Runs a function for many items, so that a failed item does not stop the others. */
import type { Logger } from './logger.ts';

/**
 * Number of completed items, and of failed or skipped items. The next call handles failed and
 * skipped items again.
 */
export interface IsolationReport {
  done: number;
  skipped: number;
}

interface IsolationOptions {
  /** What the items are called in log lines, e.g. `reservation` or `upload`. */
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
export async function forEachIsolated<Item extends { readonly id: string }>(
  items: readonly Item[],
  run: (item: Item) => Promise<unknown>,
  { subject, logger }: IsolationOptions,
): Promise<IsolationReport> {
  const report: IsolationReport = { done: 0, skipped: 0 };
  let failingMs = 0;
  for (const [index, item] of items.entries()) {
    const startedAtMs = performance.now();
    try {
      await run(item);
      report.done += 1;
    } catch (error) {
      report.skipped += 1;
      failingMs += performance.now() - startedAtMs;
      logger.warn({ error, subject, subjectId: item.id }, 'sweeper.skipped');
      if (failingMs < failingMaxMs) continue;
      report.skipped += items.length - index - 1;
      return report;
    }
  }
  return report;
}
