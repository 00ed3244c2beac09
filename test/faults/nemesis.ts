/**
 * Random kills under load: every few seconds, a process of the gateway, Postgres, Temporal or the
 * sandbox is killed or frozen while callers request jobs of every kind. Then all processes start
 * again, and all promises are checked (docs/guarantees.md).
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestPatiently, type PatientAnswer } from './caller.ts';
import { audit, checkJob, checkSteps, readJobs, setSandboxFaults, settle } from './cell.ts';
import { chatJobType } from '../../domain/job-contract.ts';
import { createCalls } from './calls.ts';
import { runBulkRound } from './bulk-round.ts';
import { kinds, type Kind } from './kinds.ts';
import { createRandom } from './shuffle.ts';
import { parts, type FaultStack } from './stack.ts';

/** Duration, load and seed of a run. */
export interface NemesisOptions {
  seed: number;
  seconds: number;
  /** Requested jobs per second. */
  rate: number;
  /** Names of the requested kinds; all if it is absent. */
  kindNames?: readonly string[];
  /** Number of items of a bulk job that runs at the same time; 0 for none. */
  items: number;
  /** Receives a line for each kill or freeze. */
  report: (line: string) => void;
}

/** Longer than the age of a stale claim, a heartbeat, a sweep and an unknown outcome together. */
const answerTimeoutMs = 240_000;

/** Time in which an item of a bulk job ends on a slow machine, in milliseconds. */
const itemMs = 1000;

interface SentRequest {
  kind: Kind;
  tag: string;
  answer: PatientAnswer;
}

/** Runs the load and the nemesis on a stack of two APIs and two workers. */
export async function runNemesis(stack: FaultStack, options: NemesisOptions) {
  // The items of a bulk job follow each other, so that many of them begin during the kills.
  await setSandboxFaults(stack, options.items > 0 ? 'slow:500ms' : 'slow:4s');
  const names = options.kindNames;
  const requested = kinds.filter(({ name }) => names === undefined || names.includes(name));
  const bulkRound =
    options.items > 0
      ? runBulkRound(stack, {
          items: options.items,
          timeoutMs: options.seconds * 1000 + answerTimeoutMs + options.items * itemMs,
        })
      : null;
  const sending: Promise<SentRequest>[] = [];
  const endsAtMs = performance.now() + options.seconds * 1000;
  const load = (async () => {
    for (let index = 0; performance.now() < endsAtMs; index += 1) {
      const kind = requested[index % requested.length];
      if (kind) sending.push(send(stack, kind));
      await sleep(1000 / options.rate);
    }
  })();
  const strikes = await strike(stack, { ...options, endsAtMs });
  await load;
  const requests = await Promise.all(sending);
  const bulk = await bulkRound;
  const violations = [
    ...(bulk?.violations ?? []),
    ...(await settle(stack)),
    ...(await audit(stack)),
    ...(await countChatCalls(stack)),
  ];
  const tags = requests.map(({ tag }) => tag);
  const begun = new Set((await readJobs(stack, tags)).map(({ tag }) => tag));
  const accepted = requests.filter(({ tag, answer }) => begun.has(tag) || answer.jobId !== null);
  for (const { kind, tag, answer } of accepted) {
    const found = [
      ...(await checkJob(stack, { tag, answer })),
      ...(kind.middle ? await checkSteps(stack, answer, ['cut', 'voice']) : []),
    ];
    violations.push(
      ...found.map((violation) => `${kind.name} ${answer.jobId ?? tag}: ${violation}`),
    );
  }
  const count = (outcome: PatientAnswer['outcome']): number =>
    accepted.filter(({ answer }) => answer.outcome === outcome).length;
  const unserved = requests
    .filter((one) => !accepted.includes(one))
    .map(({ kind, answer: { outcome, code, statuses } }) => {
      return `${kind.name}: ${outcome} ${code ?? statuses.at(-1)}`;
    });
  return {
    strikes,
    requests: requests.length,
    /** Jobs with a row or an id that a caller received; each was charged or released once. */
    accepted: accepted.length,
    completed: count('completed'),
    released: count('failed'),
    /** Items of the bulk job that were charged, and released. */
    itemsCompleted: bulk?.completed ?? 0,
    itemsReleased: bulk?.failed ?? 0,
    /** Requests without a job, each with its last status or error code. */
    unserved,
    violations,
  };
}

/** Checks that no chat was sent twice. A sandbox that was killed has counted fewer than were sent. */
async function countChatCalls(stack: FaultStack): Promise<string[]> {
  const { chatCalls = 0 } = await createCalls(stack).sandbox<{ chatCalls?: number }>('counters');
  const [recorded] = await stack.query<{ count: number }>(
    `SELECT count(*)::integer FROM provider_call c JOIN job j ON j.id = c.job_id WHERE j.type = $1`,
    [chatJobType],
  );
  const count = recorded?.count ?? 0;
  return chatCalls > count ? [`${chatCalls} calls of ${count} chat jobs`] : [];
}

async function send(stack: FaultStack, kind: Kind): Promise<SentRequest> {
  const tag = `nemesis-${randomUUID()}`;
  const answer = await requestPatiently({
    urls: [stack.getUrl('api'), stack.getUrl('api2')],
    path: kind.path,
    key: stack.caller.key,
    tag,
    body: kind.body(stack.inputs, `a tree ${tag.slice(-12)}`),
    timeoutMs: answerTimeoutMs,
  });
  return { kind, tag, answer };
}

/** Kills or freezes one part after the other until the end; then restarts all parts. */
async function strike(
  stack: FaultStack,
  { seed, endsAtMs, report }: NemesisOptions & { endsAtMs: number },
): Promise<number> {
  const random = createRandom(seed);
  const between = (leastMs: number, mostMs: number) => leastMs + random() * (mostMs - leastMs);
  let strikes = 0;
  for (; performance.now() < endsAtMs; strikes += 1) {
    await sleep(between(2000, 8000));
    for (const part of stack.takeLost()) await stack.start(part);
    const part = parts[Math.floor(random() * parts.length)] ?? 'worker';
    const awayMs = between(300, 4000);
    const isKilled = random() < 0.6;
    report(`${isKilled ? 'kill' : 'freeze'} ${part} for ${(awayMs / 1000).toFixed(1)} s`);
    if (isKilled) {
      await stack.kill(part);
      await sleep(awayMs);
      await stack.start(part);
    } else {
      stack.freeze(part, true);
      await sleep(awayMs);
      stack.freeze(part, false);
    }
  }
  for (const part of stack.takeLost()) await stack.start(part);
  return strikes;
}
