/** Runs a background task of a worker process repeatedly. */
import { setTimeout as delay } from 'node:timers/promises';

interface RepeatOptions {
  /** Milliseconds between the end of a run and the start of the next run. */
  intervalMs: number;
  /** Milliseconds before the first run. By default, the first run starts immediately. */
  firstAfterMs?: number;
}

/**
 * Runs a task repeatedly. The task must handle its own errors. Returns a function that stops the
 * repetition, aborts the signal of the current run and waits for its end.
 */
export function repeat(
  task: (signal: AbortSignal) => Promise<void>,
  options: RepeatOptions,
): () => Promise<void> {
  const stopController = new AbortController();
  const { signal } = stopController;
  const wait = async (waitMs: number): Promise<void> => {
    await delay(waitMs, undefined, { signal, ref: false }).catch(() => {});
  };
  const loop = (async () => {
    if (options.firstAfterMs !== undefined) await wait(options.firstAfterMs);
    while (!signal.aborted) {
      await task(signal);
      await wait(options.intervalMs);
    }
  })();
  return async () => {
    stopController.abort();
    await loop;
  };
}
