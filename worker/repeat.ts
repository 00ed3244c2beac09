/** Repeats a background task of a worker process. */
import { setTimeout as delay } from 'node:timers/promises';

interface RepeatOptions {
  /** Milliseconds between the end of a call and the start of the next. */
  intervalMs: number;
  /** Milliseconds before the first call. Defaults to no delay. */
  firstAfterMs?: number;
}

/**
 * Calls `pass` repeatedly. `pass` must handle its own failures.
 * @returns a function that waits for the current call and starts no further one
 */
export function repeat(pass: () => Promise<void>, options: RepeatOptions): () => Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const pause = async (waitMs: number): Promise<void> => {
    await delay(waitMs, undefined, { signal, ref: false }).catch(() => {});
  };
  const running = (async () => {
    if (options.firstAfterMs !== undefined) await pause(options.firstAfterMs);
    while (!signal.aborted) {
      await pass();
      await pause(options.intervalMs);
    }
  })();
  return async () => {
    stopping.abort();
    await running;
  };
}
