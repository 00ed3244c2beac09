/** Work that a worker process does again and again, pass after pass, until it is told to stop. */
import { setTimeout as delay } from 'node:timers/promises';

interface Pace {
  /** Milliseconds between the end of a pass and the next. */
  intervalMs: number;
  /** Milliseconds before the first pass; none unless told. */
  firstAfterMs?: number;
}

/**
 * Begins. `pass` hears its own failures: none of them ends the repetition.
 * @returns what stops it, after the pass that is under way
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
