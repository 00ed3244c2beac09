/** Work on many things of which one must not keep the others from being done. */
import type { Logger } from './logger.ts';

/** How many things were done, and how many failed and are left for the next pass. */
export interface Isolated {
  done: number;
  skipped: number;
}

interface IsolationOptions {
  /** What each is, for the log: `reservation`, `upload`. */
  subject: string;
  logger: Logger;
}

/** So much time may go by with failing: where all wait for what is away, the others are not waited for. */
const failingMaxMs = 10_000;

/**
 * Does one thing after the other; one that fails is logged by its `id`, counted and passed over. When that
 * has taken long, the rest is passed over too.
 */
export async function forEachAlone<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  run: (thing: Thing) => Promise<unknown>,
  { subject, logger }: IsolationOptions,
): Promise<Isolated> {
  const told: Isolated = { done: 0, skipped: 0 };
  let failingMs = 0;
  for (const [index, thing] of things.entries()) {
    const startedAtMs = performance.now();
    try {
      await run(thing);
      told.done += 1;
    } catch (error) {
      told.skipped += 1;
      failingMs += performance.now() - startedAtMs;
      logger.warn({ error, subject, subjectId: thing.id }, 'sweeper.skipped');
      if (failingMs < failingMaxMs) continue;
      told.skipped += things.length - index - 1;
      return told;
    }
  }
  return told;
}
