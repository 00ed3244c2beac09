/** An open loop: jobs arrive at their rate, however long those before them take. */
import { setTimeout as sleep } from 'node:timers/promises';

/** What is asked for, how often and how long. */
export interface OpenLoad {
  /** Jobs per second, evenly spaced. */
  rate: number;
  seconds: number;
  /** How long the provider works on each job, seconds. */
  providerSeconds: number;
}

/** The times of a job that ended well, milliseconds since 1970 (one machine, one clock). */
export interface JobTimes {
  /** When the job was due to be asked for: a load generator that is late counts against the answer. */
  askedAtMs: number;
  /** When its first step ran: a gateway's reservation. */
  createdAtMs: number;
  /** When its last step ran: a gateway's charge. */
  endedAtMs: number;
}

/** What became of a load. */
export interface LoadResult {
  /** Every job that ended well. */
  jobs: JobTimes[];
  /** Jobs that were never accepted. */
  refused: number;
  /** Jobs that were accepted and did not end well, or not in time. */
  lost: number;
  /** The first refusal or loss in words. */
  firstFailure: string | null;
}

/** What was asked. */
interface Asked {
  /** Id → when the job was due to be asked for, milliseconds since 1970; only of jobs that were accepted. */
  accepted: Map<string, number>;
  refused: number;
  firstFailure: string | null;
}

/** A job that has not ended so long after its provider is lost. */
const patienceMs = 120_000;
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
    const dueAt = beganAt + (turn * 1000) / load.rate;
    if (dueAt > Date.now()) await sleep(dueAt - Date.now());
    answers.push(one(turn, dueAt));
  }
  await Promise.all(answers);
  return asked;
}

/** Looks once a second until no job is open, or the last of them is lost. */
export async function untilEnded(
  load: OpenLoad,
  countOpen: () => Promise<number> | number,
): Promise<void> {
  const lostAt = Date.now() + load.providerSeconds * 1000 + patienceMs;
  // Rarely: whoever measures looks at the same database as what is measured.
  while ((await countOpen()) > 0 && Date.now() < lostAt) await sleep(lookIntervalMs);
}
