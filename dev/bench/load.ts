/** Loads: jobs at a rate, however long those before them take, or callers who ask again once they were answered. */
import { setTimeout as sleep } from 'node:timers/promises';

/** An open loop. */
export interface OpenLoad {
  /** Jobs per second, evenly spaced. */
  rate: number;
  seconds: number;
  /** How long the provider works on each job, seconds. */
  providerSeconds: number;
}

/** What was asked of an open loop. */
interface Asked {
  /** Id → when the job was due to be asked for, milliseconds since 1970; only of jobs that were accepted. */
  accepted: Map<string, number>;
  refused: number;
  /** The first refusal in words. */
  firstFailure: string | null;
}

/** A job that has not ended so long after its provider is lost. */
const lostAfterMs = 120_000;
const lookIntervalMs = 1000;

/** Asks at the load's rate; `ask` resolves to the id of an accepted job. Returns when all were answered. */
export async function runOpenLoop(
  load: OpenLoad,
  ask: (turn: number) => Promise<string>,
): Promise<Asked> {
  const asked: Asked = { accepted: new Map(), refused: 0, firstFailure: null };
  const beganAt = Date.now();
  const one = async (turn: number, askedAtMs: number): Promise<void> => {
    try {
      asked.accepted.set(await ask(turn), askedAtMs);
    } catch (error) {
      asked.refused += 1;
      asked.firstFailure ??= error instanceof Error ? error.message : String(error);
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
  return asked;
}

/** Looks once a second until no job is open, or the last of them is lost. */
export async function untilEnded(load: OpenLoad, countOpen: () => Promise<number>): Promise<void> {
  const lostAt = Date.now() + load.providerSeconds * 1000 + lostAfterMs;
  // Rarely: whoever measures looks at the same database as what is measured.
  while ((await countOpen()) > 0 && Date.now() < lostAt) await sleep(lookIntervalMs);
}

/** A closed loop. */
export interface ClosedLoad {
  callers: number;
  seconds: number;
  /** Callers begin one after the other over this time, so that they do not ask in step. */
  spreadSeconds: number;
}

/** What a closed loop saw. */
interface Answered {
  /** Of every job that succeeded, those that ended after the time was up included. */
  latenciesMs: number[];
  failures: number;
  /** The first failure in words. */
  firstFailure: string | null;
}

/** Runs `job`, which resolves to its milliseconds, over and over; what is under way at the end is waited for. */
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
        // A caller waits for its answer.
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

/** The nearest-rank quantile of sorted numbers; 0 when there are none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}
