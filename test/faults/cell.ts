/**
 * One column of the crash matrix: jobs of several kinds reach one point, one process is killed
 * there, and all promises of the project are checked after its restart.
 */
import { knownProviders } from '../../process/run-process.ts';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { chatJobType } from '../../domain/job-contract.ts';
import { runAudit, type LoggedCall } from '../../ledger/audit.ts';
import { openStorage } from '../../storage/open-storage.ts';
import { loadConfig } from '../../platform/config.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { requestPatiently, type PatientAnswer } from './caller.ts';
import { createCalls } from './calls.ts';
import { kinds as allKinds, type Kind } from './kinds.ts';
import { points, type Arrival, type Point } from './points.ts';
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
  const running = await beginAll(stack, column);
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
        ...(kind.middle ? await checkSteps(stack, answer, listLost(column)) : []),
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

/** Begins all jobs of a column; they will wait at its point. */
async function beginAll(stack: FaultStack, { point, kinds }: Column): Promise<Running[]> {
  const waits = ({ subject, call }: Arrival) => isHeld(stack, subject, call);
  if (point !== 'waiting') {
    stack.control.arm(point, waits);
    return kinds.map((kind) => begin(stack, kind));
  }
  // The first step of a pipeline is not slow, so that a later one waits for its provider.
  stack.control.arm('between-steps', waits);
  const pipelines = kinds.filter(({ middle }) => middle).map((kind) => begin(stack, kind));
  await gather(stack, { point: 'between-steps', running: pipelines });
  await setSandboxFaults(stack, 'slow:4s');
  const others = kinds.filter(({ middle }) => !middle).map((kind) => begin(stack, kind));
  stack.control.release();
  return [...pipelines, ...others];
}

/** Returns whether a call waits at a point: every one but those outside the middle of a pipeline. */
async function isHeld(stack: FaultStack, jobId: string, call: number | null): Promise<boolean> {
  if (call === null) return true;
  const [job] = await stack.query<{ type: string }>('SELECT type FROM job WHERE id = $1', [jobId]);
  const middle = findMiddle(job?.type);
  return !middle || middle.includes(call);
}

const findMiddle = (type: string | undefined) => allKinds.find(({ name }) => name === type)?.middle;

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
  if (point === 'not-answered') return new Set(arrived().keys());
  // Before its start a job has no row with a tag, so only the number of jobs is known.
  if (point === 'before-start') return new Set(tags.slice(0, arrived().size));
  const jobs = await readJobs(stack, tags);
  const here = await Promise.all(
    jobs.map(async ({ id, tag, type, accepted }) => {
      if (point !== 'waiting') {
        const calls = arrived().get(id);
        const middle = findMiddle(type) ?? [];
        const isThere = calls && (calls.has(null) || middle.every((call) => calls.has(call)));
        return isThere ? tag : null;
      }
      return accepted && (await createCalls(stack).countAccepted(id)) > 0 ? tag : null;
    }),
  );
  return new Set(here.filter((tag) => tag !== null));
}

/** Row of a job, as the checks read it. */
export interface JobRow {
  id: string;
  tag: string;
  type: string;
  status: string;
  state: string;
  /** True if no call to fal waits for the response to its submit, and in a pipeline, one for its end. */
  accepted: boolean;
  entries: string[];
}

/** Returns the jobs of requests with these tags. */
export async function readJobs(stack: FaultStack, tags: string[]): Promise<JobRow[]> {
  return stack.query<JobRow>(
    `SELECT j.id, j.request_id AS tag, j.type, j.status, r.state,
       NOT EXISTS (SELECT FROM provider_call c WHERE c.job_id = j.id
         AND c.state NOT IN ('accepted', 'answered') AND c.provider = 'fal')
       AND (j.steps IS NULL OR EXISTS (SELECT FROM provider_call c WHERE c.job_id = j.id
         AND c.state = 'accepted')) AS accepted,
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
  // What a provider delivered before its stream broke is charged.
  const isPartOfChat = job.type === chatJobType && job.state === 'charged';
  const expected =
    answer.outcome === 'completed' || isPartOfChat
      ? { status: answer.outcome, state: 'charged', entries: 'reserve,charge' }
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
  if (kind.points) return kind.points.includes(point);
  if (point === 'between-steps') return kind.middle !== undefined;
  return !kind.storesNothing || (point !== 'result-known' && point !== 'mid-store');
}

/** Points between the submit of a call and the storing of its result. */
const inTheAir = points.slice(points.indexOf('before-submit'), points.indexOf('stored'));

/** Processes that have the only copy of a response while it is sent. */
const holders: readonly Victim[] = ['worker', 'sandbox'];

/**
 * Checks that a call which the provider accepted is delivered, unless its only response was lost
 * with a process, or the provider could not read its input.
 */
function checkLiveness(
  { victim, point }: Column,
  seen: { kind: Kind; answer: PatientAnswer; submits: number },
): string[] {
  if (seen.answer.outcome === 'completed' || seen.submits === 0) return [];
  if (seen.kind.answersOnce && holders.includes(victim) && inTheAir.includes(point)) return [];
  // The API serves the inputs, which some providers read only when they begin.
  if (victim === 'api' && seen.answer.code === 'PROVIDER_REJECTED_INPUT') return [];
  return [`the provider took it, but the job failed: ${seen.answer.code}`];
}

interface StepsReply {
  data: {
    billing: { charged: number };
    result: {
      steps: { id: string; status: string; credits: number; error: { code: string } | null }[];
    };
  };
}

/** Lists the steps of a pipeline whose call is lost when the process is killed. */
function listLost({ victim, point }: Column): string[] {
  const isUnsent = victim === 'worker' && point === 'before-submit';
  const isLost = holders.includes(victim) && inTheAir.includes(point);
  return [...(isUnsent ? ['cut'] : []), ...(isLost ? ['voice'] : [])];
}

/**
 * Checks that a pipeline was charged the sum of its delivered steps. All steps must have delivered,
 * except those whose call was lost with a process, and the steps that take their results.
 */
export async function checkSteps(
  stack: FaultStack,
  { jobId, outcome }: PatientAnswer,
  lost: readonly string[],
): Promise<string[]> {
  if (outcome !== 'completed') return [];
  const response = await fetch(`${stack.url}/api/v1/studio/jobs/${jobId}`, {
    headers: { authorization: `Bearer ${stack.caller.key}` },
  });
  const { billing, result } = ((await response.json()) as StepsReply).data;
  const sum = result.steps.reduce((total, { credits }) => total + credits, 0);
  const wrong = result.steps.filter(({ id, status, error }) => {
    if (status === 'completed') return false;
    if (status === 'skipped') return id !== 'large' || !lost.includes('cut');
    return !lost.includes(id) || error?.code !== 'OUTCOME_UNKNOWN';
  });
  return [
    ...wrong.map(({ id, status, error }) => `the step ${id} is ${status}: ${error?.code}`),
    ...(Math.abs(sum - billing.charged) < 1e-6
      ? []
      : [`charged ${billing.charged}, but the steps cost ${sum}`]),
  ];
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
