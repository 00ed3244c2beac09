/** A closed loop: so many callers, each of whom asks again as soon as it was answered. */
import { setTimeout as sleep } from 'node:timers/promises';

/** How hard and how long. */
export interface Load {
  concurrency: number;
  seconds: number;
  /** Callers begin one after the other over this time, so that they do not ask in step. */
  spreadSeconds?: number;
}

/** What a loop saw. */
export interface LoopResult {
  /** Of every job that succeeded, those that ended after the time was up included. */
  latenciesMs: number[];
  failures: number;
  /** The first failure in words. */
  firstFailure: string | null;
  /** From the first question to the last answer. */
  elapsedSeconds: number;
}

/** A job without an answer after this has failed; whoever asked goes on. */
const answerTimeoutMs = 60_000;

/** Runs `job` over and over; what is under way when the time is up is waited for. */
export async function runClosedLoop(job: () => Promise<void>, load: Load): Promise<LoopResult> {
  const result: LoopResult = {
    latenciesMs: [],
    failures: 0,
    firstFailure: null,
    elapsedSeconds: 0,
  };
  const beganAt = performance.now();
  const endsAt = beganAt + load.seconds * 1000;
  const caller = async (_: unknown, place: number): Promise<void> => {
    await sleep((1000 * (load.spreadSeconds ?? 0) * place) / load.concurrency);
    while (performance.now() < endsAt) {
      const startedAt = performance.now();
      try {
        // A caller waits for its answer.
        await withinTimeout(job);
        result.latenciesMs.push(performance.now() - startedAt);
      } catch (error) {
        result.failures += 1;
        result.firstFailure ??= error instanceof Error ? error.message : String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: load.concurrency }, caller));
  result.elapsedSeconds = (performance.now() - beganAt) / 1000;
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
