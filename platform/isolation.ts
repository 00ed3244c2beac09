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

/** Does one thing after the other; one that fails is logged by its `id`, counted and passed over. */
export async function forEachAlone<Thing extends { readonly id: string }>(
  things: readonly Thing[],
  run: (thing: Thing) => Promise<unknown>,
  { subject, logger }: IsolationOptions,
): Promise<Isolated> {
  const told: Isolated = { done: 0, skipped: 0 };
  for (const thing of things) {
    try {
      await run(thing);
      told.done += 1;
    } catch (error) {
      told.skipped += 1;
      logger.warn({ error, subject, subjectId: thing.id }, 'sweeper.skipped');
    }
  }
  return told;
}
