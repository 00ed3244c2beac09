/** Load generators: an open loop starts jobs when they are due; in a closed loop each caller has one request at a time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Result of a load generator. */
export interface LoopResult<Result> {
  /** Results of all jobs that succeeded, including those that ended after the load. */
  results: Result[];
  failures: number;
  /** Message of the first failure. */
  firstFailure: string | null;
}

/** Adds the result of a job, or counts its failure. */
async function record<Result>(
  result: LoopResult<Result>,
  job: () => Promise<Result>,
): Promise<void> {
  try {
    result.results.push(await job());
  } catch (error) {
    result.failures += 1;
    result.firstFailure ??= error instanceof Error ? error.message : String(error);
  }
}

/** Settings of an open loop. */
export interface OpenLoad {
  /** Jobs per second, evenly spaced. */
  rate: number;
  seconds: number;
  /** Time that the provider takes for a job. */
  providerSeconds: number;
}

/** Time from the expected end of a job until it counts as lost. */
const lostAfterMs = 120_000;
const pollIntervalMs = 1000;

/** Returns when the jobs of a load are due, in milliseconds from its start. */
export function spaceEvenly({ rate, seconds }: Pick<OpenLoad, 'rate' | 'seconds'>): number[] {
  return Array.from({ length: Math.round(rate * seconds) }, (_, turn) => (turn * 1000) / rate);
}

/** Returns random times of independent arrivals, in milliseconds from the start of a load. */
export function spaceRandomly({ rate, seconds }: Pick<OpenLoad, 'rate' | 'seconds'>): number[] {
  const dueMs: number[] = [];
  const takeGap = (): number => (-Math.log(1 - Math.random()) * 1000) / rate;
  for (let at = takeGap(); at < seconds * 1000; at += takeGap()) dueMs.push(at);
  return dueMs;
}

/** Returns the time in milliseconds since 1970, with fractions. */
export const readClock = (): number => performance.timeOrigin + performance.now();

/**
 * Starts each job when it is due, and returns after the last one. `job` returns, for example, the id of the accepted job, or
 * its duration. Times count from `dueAtMs`, in milliseconds since 1970, so they include delays of the load generator.
 */
export async function runOpenLoop<Result>(
  dueMs: readonly number[],
  job: (turn: number, dueAtMs: number) => Promise<Result>,
): Promise<LoopResult<Result>> {
  const result: LoopResult<Result> = { results: [], failures: 0, firstFailure: null };
  const beganAtMs = readClock();
  const jobs: Promise<void>[] = [];
  for (const [turn, afterMs] of dueMs.entries()) {
    const dueAtMs = beganAtMs + afterMs;
    if (dueAtMs > readClock()) await sleep(dueAtMs - readClock());
    jobs.push(record(result, () => job(turn, dueAtMs)));
  }
  await Promise.all(jobs);
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

/** Runs `job` repeatedly for each caller, and waits for the last jobs. */
export async function runClosedLoop<Result>(
  job: () => Promise<Result>,
  load: ClosedLoad,
): Promise<LoopResult<Result>> {
  const result: LoopResult<Result> = { results: [], failures: 0, firstFailure: null };
  const endsAt = performance.now() + load.seconds * 1000;
  const caller = async (_: unknown, place: number): Promise<void> => {
    await sleep((1000 * load.spreadSeconds * place) / load.callers);
    while (performance.now() < endsAt) await record(result, job);
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
