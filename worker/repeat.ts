/** Repetition of a background task of a worker process. */
import { setTimeout as delay } from 'node:timers/promises';

interface Pace {
  /** Milliseconds between the end of a pass and the start of the next. */
  intervalMs: number;
  /** Milliseconds before the first pass; by default none. */
  firstAfterMs?: number;
}

/**
 * Repeats `pass`, which must handle its own failures.
 * @returns a function that stops the repetition after the current pass
 */
export function repeat(pass: () => Promise<void>, pace: Pace): () => Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const pause = async (waitMs: number): Promise<void> => {
    await delay(waitMs, undefined, { signal, ref: false }).catch(() => {});
  };
  const running = (async () => {
    if (pace.firstAfterMs !== undefined) await pause(pace.firstAfterMs);
    while (!signal.aborted) {
      await pass();
      await pause(pace.intervalMs);
    }
  })();
  return async () => {
    stopping.abort();
    await running;
  };
}
