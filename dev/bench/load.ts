/** Loads: an open loop, which starts jobs at a rate, and a closed loop of callers, each with one request at a time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** An open loop. */
export interface OpenLoad {
  /** Jobs per second, evenly spaced. */
  rate: number;
  seconds: number;
  /** Time for which the provider works on each job. */
  providerSeconds: number;
}

/** Jobs of an open loop. */
interface Started {
  /** Due times of the accepted jobs by their ids, in milliseconds since 1970. */
  accepted: Map<string, number>;
  refused: number;
  /** Message of the first refusal. */
  firstFailure: string | null;
}

/** Time after the end of its provider at which a job counts as lost. */
const lostAfterMs = 120_000;
const lookIntervalMs = 1000;

/** Starts jobs at the rate of the load; `start` resolves to the id of an accepted job. Returns after the last response. */
export async function runOpenLoop(
  load: OpenLoad,
  start: (turn: number) => Promise<string>,
): Promise<Started> {
  const started: Started = { accepted: new Map(), refused: 0, firstFailure: null };
  const beganAt = Date.now();
  const one = async (turn: number, dueAtMs: number): Promise<void> => {
    try {
      started.accepted.set(await start(turn), dueAtMs);
    } catch (error) {
      started.refused += 1;
      started.firstFailure ??= error instanceof Error ? error.message : String(error);
    }
  };
  const answers: Promise<void>[] = [];
  for (let turn = 0; turn < Math.round(load.rate * load.seconds); turn += 1) {
    // A load generator that is late counts against the answer.
    const dueAt = beganAt + (turn * 1000) / load.rate;
    if (dueAt > Date.now()) await sleep(dueAt - Date.now());
    answers.push(one(turn, dueAt));
  }
  await Promise.all(answers);
  return started;
}

/** Waits until no job is open, or the last one is lost. */
export async function untilEnded(load: OpenLoad, countOpen: () => Promise<number>): Promise<void> {
  const lostAt = Date.now() + load.providerSeconds * 1000 + lostAfterMs;
  // Rarely, because the count reads the database that is measured.
  while ((await countOpen()) > 0 && Date.now() < lostAt) await sleep(lookIntervalMs);
}

/** A closed loop. */
export interface ClosedLoad {
  callers: number;
  seconds: number;
  /** Time over which the callers start one after the other. */
  spreadSeconds: number;
}

/** Result of a closed loop. */
interface Answered {
  /** Durations of all jobs that succeeded, also of those that ended after the time of the load. */
  latenciesMs: number[];
  failures: number;
  /** Message of the first failure. */
  firstFailure: string | null;
}

/** Runs `job` repeatedly for each caller, and waits for the last ones; `job` resolves to its duration in milliseconds. */
export async function runClosedLoop(
  job: () => Promise<number>,
  load: ClosedLoad,
): Promise<Answered> {
  const result: Answered = { latenciesMs: [], failures: 0, firstFailure: null };
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
