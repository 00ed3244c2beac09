/**
 * One column of the crash matrix: jobs of several kinds reach one point, one process is killed
 * there, and all promises of the project are checked after its restart.
 */
import { knownProviders } from '../../process/run-process.ts';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { runAudit, type LoggedCall } from '../../ledger/audit.ts';
import { openStorage } from '../../storage/open-storage.ts';
import { loadConfig } from '../../platform/config.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { requestPatiently, type PatientAnswer } from './caller.ts';
import { createCalls } from './calls.ts';
import type { Kind } from './kinds.ts';
import { points, type Point } from './points.ts';
import type { FaultStack, Part } from './stack.ts';

/** Processes that can be killed. */
export const victims = ['api', 'worker', 'postgres', 'temporal', 'sandbox'] as const;
/** A process that a cell kills. */
export type Victim = (typeof victims)[number];

/** Jobs of a column, the point that they reach, and the process that is killed there. */
export interface Column {
  victim: Victim;
  point: Point;
  kinds: readonly Kind[];
  /** Time before the victim is started again, in milliseconds. */
  downMs: number;
}

/** Result of one job. */
export interface CellResult {
  victim: Victim;
  point: Point;
  kind: string;
  /** `completed` or `released`, if the point and the victim allow it; otherwise `violated`. */
  verdict: 'completed' | 'released' | 'violated';
  /** Time from the restart of the victim to the caller's response. */
  recoveryMs: number;
  /** Error code of a failed job. */
  code: string | null;
  /** Violations; empty unless the verdict is `violated`. */
  violations: string[];
}

interface Running {
  kind: Kind;
  tag: string;
  answer: Promise<PatientAnswer>;
  /** performance.now() of the response. */
  answeredAt: number;
}

const arrivalTimeoutMs = 30_000;
/** Longer than the heartbeat timeout of a worker, the age of a stale claim and a sweep together. */
const answerTimeoutMs = 120_000;

/** Runs a column. */
export async function runColumn(stack: FaultStack, column: Column): Promise<CellResult[]> {
  const { victim, point } = column;
  stack.takeLost();
  if (point === 'waiting') await setSandboxFaults(stack, 'slow:4s');
  else stack.control.arm(point);
  const running = column.kinds.map((kind) => begin(stack, kind));
  const missing = await gather(stack, { point, running });
  await stack.kill(victim);
  stack.control.release();
  await sleep(column.downMs);
  await stack.start(victim);
  const backAt = performance.now();
  if (point === 'waiting' && victim !== 'sandbox') await setSandboxFaults(stack, null);
  const answers = await Promise.all(running.map(({ answer }) => answer));
  const shared = [...(await settle(stack)), ...(await reviveLost(stack)), ...(await audit(stack))];
  return Promise.all(
    running.map(async ({ kind, tag, answeredAt }, index): Promise<CellResult> => {
      const answer = answers[index];
      if (!answer) throw new Error('every request has an answer');
      const submits =
        answer.jobId === null ? 0 : await createCalls(stack).countAccepted(answer.jobId);
      const violations = [
        ...(missing.has(tag) ? ['never came to the point'] : []),
        ...(await checkJob(stack, { tag, answer })),
        ...checkLiveness(column, { kind, answer, submits }),
        ...shared,
      ];
      const kept = answer.outcome === 'completed' ? 'completed' : 'released';
      return {
        victim,
        point,
        kind: kind.name,
        verdict: violations.length > 0 ? 'violated' : kept,
        recoveryMs: Math.max(0, Math.round(answeredAt - backAt)),
        code: answer.code,
        violations,
      };
    }),
  );
}

function begin(stack: FaultStack, kind: Kind): Running {
  const tag = `fault-${randomUUID()}`;
  const running = { kind, tag, answeredAt: 0 };
  const request = async (): Promise<PatientAnswer> => {
    const answer = await requestPatiently({
      urls: [stack.url],
      path: kind.path,
      key: stack.caller.key,
      tag,
      body: kind.body(stack.inputs, `a tree ${tag.slice(-12)}`),
      timeoutMs: answerTimeoutMs,
    });
    running.answeredAt = performance.now();
    return answer;
  };
  return Object.assign(running, { answer: request() });
}

/** Waits until every job is at the point; returns the tags of those that are not. */
async function gather(
  stack: FaultStack,
  { point, running }: { point: Point; running: readonly Running[] },
): Promise<Set<string>> {
  const deadlineAt = Date.now() + arrivalTimeoutMs;
  const tags = running.map(({ tag }) => tag);
  for (;;) {
    const here = await arrivedTags(stack, { point, tags });
    if (here.size >= tags.length || Date.now() > deadlineAt) {
      return new Set(tags.filter((tag) => !here.has(tag)));
    }
    await sleep(50);
  }
}

async function arrivedTags(
  stack: FaultStack,
  { point, tags }: { point: Point; tags: string[] },
): Promise<Set<string>> {
  const { arrived } = stack.control;
  if (point === 'not-answered') return new Set(arrived());
  // Before its start a job has no row with a tag, so only the number of jobs is known.
  if (point === 'before-start') return new Set(tags.slice(0, arrived().size));
  const jobs = await readJobs(stack, tags);
  const here = await Promise.all(
    jobs.map(async ({ id, tag, accepted }) => {
      if (point !== 'waiting') return arrived().has(id) ? tag : null;
      return accepted && (await createCalls(stack).countAccepted(id)) > 0 ? tag : null;
    }),
  );
  return new Set(here.filter((tag) => tag !== null));
}

/** Row of a job, as the checks read it. */
export interface JobRow {
  id: string;
  tag: string;
  status: string;
  state: string;
  /** True if no call to fal waits for the response to its submit. */
  accepted: boolean;
  entries: string[];
}

/** Returns the jobs of requests with these tags. */
export async function readJobs(stack: FaultStack, tags: string[]): Promise<JobRow[]> {
  return stack.query<JobRow>(
    `SELECT j.id, j.request_id AS tag, j.status, r.state,
       NOT EXISTS (SELECT FROM provider_call c WHERE c.job_id = j.id
         AND c.state <> 'accepted' AND c.provider = 'fal') AS accepted,
       ARRAY(SELECT e.kind::text FROM ledger_entry e WHERE e.reservation_id = j.id ORDER BY e.sequence)
         AS entries
     FROM job j JOIN reservation r ON r.id = j.id WHERE j.request_id = ANY($1)`,
    [tags],
  );
}

/** Compares a request's only job with its ledger entries and its caller's response. */
export async function checkJob(
  stack: FaultStack,
  { tag, answer }: { tag: string; answer: PatientAnswer },
): Promise<string[]> {
  const jobs = await readJobs(stack, [tag]);
  const [job] = jobs;
  if (jobs.length !== 1 || !job) return [`${jobs.length} jobs of one request`];
  const expected =
    answer.outcome === 'completed'
      ? { status: 'completed', state: 'charged', entries: 'reserve,charge' }
      : { status: 'failed', state: 'released', entries: 'reserve,release' };
  const violations: string[] = [];
  if (answer.outcome === 'no answer') violations.push('the caller got no answer');
  if (job.status !== expected.status) violations.push(`${answer.outcome}, but ${job.status}`);
  if (job.state !== expected.state) violations.push(`${answer.outcome}, but ${job.state}`);
  if (job.entries.join() !== expected.entries) violations.push(`entries ${job.entries.join()}`);
  if (answer.code === 'Internal server error') violations.push('failed on our side');
  return violations;
}

/** Returns whether jobs of a kind reach a point. */
export function reaches(kind: Kind, point: Point): boolean {
  return !kind.storesNothing || (point !== 'result-known' && point !== 'mid-store');
}

/** Points between the submit of a call and the storing of its result. */
const inTheAir = points.slice(points.indexOf('before-submit'), points.indexOf('stored'));

/** Processes that have the only copy of a response while it is sent. */
const holders: readonly Victim[] = ['worker', 'sandbox'];

/**
 * Checks that a call which the provider accepted is delivered, unless its only response was lost
 * with a process.
 */
function checkLiveness(
  { victim, point }: Column,
  seen: { kind: Kind; answer: PatientAnswer; submits: number },
): string[] {
  if (seen.answer.outcome === 'completed' || seen.submits === 0) return [];
  if (seen.kind.answersOnce && holders.includes(victim) && inTheAir.includes(point)) return [];
  return [`the provider took it, but the job failed: ${seen.answer.code}`];
}

/** Waits until no reservation is open; returns a violation if one stays open. */
export async function settle(stack: FaultStack): Promise<string[]> {
  const deadlineAt = Date.now() + 30_000;
  for (;;) {
    const open = await stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`);
    if (open.length === 0) return [];
    if (Date.now() > deadlineAt) return [`${open.length} reservations were never settled`];
    await sleep(100);
  }
}

/** Restarts processes that ended by themselves; each is a violation. */
async function reviveLost(stack: FaultStack): Promise<string[]> {
  const lost = stack.takeLost();
  for (const part of lost) await stack.start(part);
  return lost.map((part: Part) => `${part} ended by itself`);
}

/** Audits all promises, with the bytes of all results and the sandbox's log of submits. */
export async function audit(stack: FaultStack): Promise<string[]> {
  const config = loadConfig(knownProviders, { ...stack.env });
  const logger = createLogger('faults', 'silent');
  const pool = await openDatabase({ url: stack.databaseUrl, poolMax: 2, logger });
  try {
    const { storage } = await openStorage(config, stack.url);
    const submits = () => createCalls(stack).sandbox<LoggedCall[]>('submits');
    const { databaseUrl } = stack;
    const { checks } = await runAudit(
      { databaseUrl, pool, storage, acceptedCalls: submits },
      { scope: 'all' },
    );
    return checks.flatMap(({ name, subjects }) => subjects.map((subject) => `${name}: ${subject}`));
  } finally {
    await pool.end();
  }
}

/** Sets the faults of every generation; null removes them. */
export async function setSandboxFaults(stack: FaultStack, faults: string | null): Promise<void> {
  const { sandbox } = createCalls(stack);
  await (faults === null ? sandbox('faults', undefined, 'DELETE') : sandbox('faults', { faults }));
}
