/** The end of a benchmark: nothing that it started outlives it, however it ends. */

/** What was started, each by what stops it. */
export type Stops = (() => Promise<unknown>)[];

/**
 * Runs a benchmark, which adds what it starts; stops all of that once, the last first: gateways before
 * their servers. A signal ends the process with status 130.
 * @throws what the benchmark throws
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
