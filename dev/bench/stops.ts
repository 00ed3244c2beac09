/** Stops everything that a benchmark started. */

/** Functions that stop the started processes, in the order in which they were started. */
export type Stops = (() => Promise<unknown>)[];

/**
 * Runs a benchmark, and stops everything that it started, last started first. A signal ends the process with status 130.
 * @throws the errors that `run` throws
 */
export async function runAndStop(run: (started: Stops) => Promise<void>): Promise<void> {
  const started: Stops = [];
  let ended: Promise<void> | undefined;
  const end = (): Promise<void> => (ended ??= stopAll(started));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => void end().finally(() => process.exit(130)));
  }
  try {
    await run(started);
  } finally {
    await end();
  }
}

async function stopAll(started: Stops): Promise<void> {
  for (const stop of started.toReversed()) {
    await stop().catch((error: unknown) => console.error(String(error)));
  }
}
