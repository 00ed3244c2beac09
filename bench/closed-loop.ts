/** A closed loop: so many callers, each of whom asks again as soon as it was answered. */

/** How hard and how long. */
export interface Load {
  concurrency: number;
  seconds: number;
}

/** What a loop saw. */
export interface LoopResult {
  /** Of every job that succeeded, those that ended after the time was up included. */
  latenciesMs: number[];
  /** Successes within the time. */
  inTime: number;
  failures: number;
  /** The first failure in words. */
  firstFailure: string | null;
  seconds: number;
}

/** A job without an answer after this has failed; whoever asked goes on. */
const answerTimeoutMs = 20_000;

/** Runs `job` over and over; what is under way when the time is up is waited for. */
export async function runClosedLoop(job: () => Promise<void>, load: Load): Promise<LoopResult> {
  const result: LoopResult = {
    latenciesMs: [],
    inTime: 0,
    failures: 0,
    firstFailure: null,
    seconds: load.seconds,
  };
  const endsAt = performance.now() + load.seconds * 1000;
  const caller = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      const startedAt = performance.now();
      try {
        // oxlint-disable-next-line no-await-in-loop -- a caller waits for its answer
        await withinTimeout(job);
        const endedAt = performance.now();
        result.latenciesMs.push(endedAt - startedAt);
        if (endedAt <= endsAt) result.inTime += 1;
      } catch (error) {
        result.failures += 1;
        result.firstFailure ??= error instanceof Error ? error.message : String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: load.concurrency }, caller));
  return result;
}

async function withinTimeout(job: () => Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`no answer after ${answerTimeoutMs / 1000} s`)),
    answerTimeoutMs,
  );
  try {
    await Promise.race([job(), promise]);
  } finally {
    clearTimeout(timer);
  }
}
