/** Load generators: an open loop starts jobs at a fixed rate; in a closed loop each caller has one request at a time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Settings of an open loop. */
export interface OpenLoad {
  /** Jobs per second, evenly spaced. */
  rate: number;
  seconds: number;
  /** Time that the provider takes for a job. */
  providerSeconds: number;
}

/** Result of an open loop. */
interface OpenLoopResult {
  /** Time at which each accepted job was due, by job id, in milliseconds since 1970. */
  accepted: Map<string, number>;
  failedStarts: number;
  /** Message of the first failed start. */
  firstFailure: string | null;
}

/** Time from the expected end of a job until it counts as lost. */
const lostAfterMs = 120_000;
const pollIntervalMs = 1000;

/** Starts jobs at the rate of the load. Calls `start`, which returns the id of the accepted job; returns after the last response. */
export async function runOpenLoop(
  load: OpenLoad,
  start: (turn: number) => Promise<string>,
): Promise<OpenLoopResult> {
  const result: OpenLoopResult = { accepted: new Map(), failedStarts: 0, firstFailure: null };
  const beganAt = Date.now();
  const startJob = async (turn: number, dueAtMs: number): Promise<void> => {
    try {
      result.accepted.set(await start(turn), dueAtMs);
    } catch (error) {
      result.failedStarts += 1;
      result.firstFailure ??= error instanceof Error ? error.message : String(error);
    }
  };
  const starts: Promise<void>[] = [];
  for (let turn = 0; turn < Math.round(load.rate * load.seconds); turn += 1) {
    // Times count from when the job was due, so they include delays of the load generator.
    const dueAt = beganAt + (turn * 1000) / load.rate;
    if (dueAt > Date.now()) await sleep(dueAt - Date.now());
    starts.push(startJob(turn, dueAt));
  }
  await Promise.all(starts);
  return result;
}

/** Waits until no job is open, or until the open jobs count as lost. */
export async function untilEnded(load: OpenLoad, countOpen: () => Promise<number>): Promise<void> {
  const lostAt = Date.now() + load.providerSeconds * 1000 + lostAfterMs;
  // The interval is long because the query loads the database that is measured.
  while ((await countOpen()) > 0 && Date.now() < lostAt) await sleep(pollIntervalMs);
}

/** Settings of a closed loop. */
export interface ClosedLoad {
  callers: number;
  seconds: number;
  /** Time over which the starts of the callers are spread. */
  spreadSeconds: number;
}

/** Result of a closed loop. */
interface ClosedLoopResult {
  /** Durations of all jobs that succeeded, including those that ended after the load. */
  latenciesMs: number[];
  failures: number;
  /** Message of the first failure. */
  firstFailure: string | null;
}

/** Runs `job` repeatedly for each caller, and waits for the last jobs. `job` returns its duration in milliseconds. */
export async function runClosedLoop(
  job: () => Promise<number>,
  load: ClosedLoad,
): Promise<ClosedLoopResult> {
  const result: ClosedLoopResult = { latenciesMs: [], failures: 0, firstFailure: null };
  const endsAt = performance.now() + load.seconds * 1000;
  const caller = async (_: unknown, place: number): Promise<void> => {
    await sleep((1000 * load.spreadSeconds * place) / load.callers);
    while (performance.now() < endsAt) {
      try {
        result.latenciesMs.push(await job());
      } catch (error) {
        result.failures += 1;
        result.firstFailure ??= error instanceof Error ? error.message : String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: load.callers }, caller));
  return result;
}

/** Returns the nearest-rank quantile of sorted numbers; 0 if there are none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

/** Returns the sum of numbers. */
export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
