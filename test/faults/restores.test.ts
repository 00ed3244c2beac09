/**
 * One database is restored to an earlier time, and the other keeps its state: jobs end as
 * docs/backup.md describes, with APIs and workers stopped meanwhile, and with running workers. No
 * job is charged twice, no reservation stays open, and the audit finds nothing.
 */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findViolations } from '../../ledger/invariants.ts';
import { findTemporalCli } from '../../dev/stack/temporal-cli.ts';
import { startStack, type FaultStack } from './stack.ts';

let stack: FaultStack;
/** Starts a stack with these settings before each test of a `describe`. */
const startWith = (env: Record<string, string> = {}) =>
  beforeEach(async () => {
    stack = await startStack({ env });
  });
afterEach(async () => {
  await expect
    .poll(() => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`), {
      interval: lookMs,
    })
    .toEqual([]);
  expect(await findViolations(stack.databaseUrl)).toEqual([]);
  await stack.close();
});

async function ask(
  path: string,
  { key = stack.caller.key, body }: { key?: string; body?: object },
) {
  const answer = await fetch(stack.url + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const parsed = (await answer.json()) as { data: { jobId: string; why: string }; error: string };
  return { status: answer.status, ...parsed };
}
const admin = (path: string, body?: object) =>
  ask(`/api/admin/v1${path}`, { key: stack.env['ADMIN_API_KEY'] ?? '', ...(body && { body }) });
async function start(prompt: string): Promise<string> {
  const { data } = await ask('/api/v1/studio/image/generate', { body: { prompt, async: true } });
  return data.jobId;
}

interface JobState {
  status: string;
  code: string | null;
  entries: string[];
}
async function stateOf(jobId: string): Promise<JobState | null> {
  const [job] = await stack.query<JobState>(
    `SELECT status, error->>'code' AS code, ARRAY(SELECT e.kind::text FROM ledger_entry e
       WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries FROM job j WHERE id = $1`,
    [jobId],
  );
  return job ?? null;
}
async function acceptedOf(jobId: string): Promise<number> {
  const answer = await fetch(`${stack.sandboxUrl}/_sandbox/submits?jobId=${jobId}`);
  const parsed = (await answer.json()) as unknown[] | { submits: unknown[] };
  return (Array.isArray(parsed) ? parsed : parsed.submits).length;
}
/** Waits until the provider has accepted the call, and its operation is recorded. */
async function taken(jobId: string): Promise<void> {
  await expect.poll(() => acceptedOf(jobId)).toBe(1);
  const states = () => stack.query('SELECT state FROM provider_call WHERE job_id = $1', [jobId]);
  await expect.poll(states).toEqual([{ state: 'accepted' }]);
}
/** Interval of polls; each opens new connections, because the servers are restarted. */
const lookMs = 500;
const ends = (jobId: string, state: JobState | null) =>
  expect.poll(() => stateOf(jobId), { timeout: 120_000, interval: lookMs }).toEqual(state);

const paid = { status: 'completed', code: null, entries: ['reserve', 'charge'] };
const open = { status: 'open', code: null, entries: ['reserve'] };
const lost = { status: 'failed', code: 'JOB_LOST', entries: ['reserve', 'release'] };

describe('Postgres restored to an earlier time while Temporal keeps its state', () => {
  startWith();

  it('ends each job as docs/backup.md describes', async () => {
    const ended = await start('an otter before');
    await ends(ended, paid);
    const [left, saved, stillOpen] = await Promise.all([
      start('[[slow:12s]] an otter left to the sweeper'),
      start('[[slow:12s]] an otter that an operator saves'),
      start('[[slow:60s]] an otter that takes its time'),
    ]);
    await Promise.all([left, saved, stillOpen].map(taken));
    await stack.copyData('postgres', 'take');
    await Promise.all([ends(left, paid), ends(saved, paid)]);
    const forgotten = await start('an otter since');
    await ends(forgotten, paid);
    const forgottenOpen = await start('[[slow:40s]] an otter since, still open');
    await taken(forgottenOpen);
    // Longer than a workflow task, so that Temporal has recorded the reservation and the submit.
    await sleep(5000);
    const justSent = await start('[[slow:5s]] an otter that was sent a moment ago');
    await expect.poll(() => acceptedOf(justSent)).toBe(1);

    await Promise.all([stack.kill('api'), stack.kill('worker')]);
    await stack.copyData('postgres', 'put back');
    for (const jobId of [left, saved, stillOpen]) expect(await stateOf(jobId)).toEqual(open);
    // First step of docs/backup.md, for one of the two jobs.
    await stack.query(
      `UPDATE reservation SET expires_at = now() + interval '1 hour' WHERE id = $1`,
      [saved],
    );
    await Promise.all([stack.start('api'), stack.start('worker')]);

    expect((await admin(`/jobs/${saved}`)).data.why).toContain(
      'workflow ended (COMPLETED) without settling',
    );
    const resettled = await admin(`/jobs/${saved}/resettle`, { actor: 'olga', reason: 'restored' });
    expect(resettled.status).toBe(202);
    await ends(saved, paid);
    await ends(left, lost);
    await ends(stillOpen, paid);
    expect(await stateOf(ended)).toEqual(paid);
    for (const jobId of [forgotten, forgottenOpen]) {
      expect((await admin(`/jobs/${jobId}`)).status).toBe(404);
    }
    const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
    const outcome = await new Client({ connection }).workflow.getHandle(forgottenOpen).result();
    expect(outcome).toMatchObject({ status: 'failed', billing: 'released' });
    await connection.close();
    // If Temporal has not recorded the first steps, they run and send again; otherwise the job is lost.
    await expect
      .poll(async () => [null, 'completed'].includes((await stateOf(justSent))?.status ?? null))
      .toBe(true);
    expect(await acceptedOf(justSent)).toBeLessThanOrEqual((await stateOf(justSent)) ? 2 : 1);
    // No other call was sent a second time.
    for (const jobId of [ended, left, saved, stillOpen, forgotten, forgottenOpen]) {
      expect(await acceptedOf(jobId)).toBe(1);
    }
  });
});

describe('Temporal restored to an earlier time while Postgres keeps its state', () => {
  startWith();

  it('ends each job as docs/backup.md describes', async () => {
    const [endedSince, stillOpen] = await Promise.all([
      start('[[slow:12s]] a beaver that ends in between'),
      start('[[slow:60s]] a beaver that takes its time'),
    ]);
    await Promise.all([endedSince, stillOpen].map(taken));
    await stack.copyData('temporal', 'take');
    await ends(endedSince, paid);
    const unknownEnded = await start('a beaver since');
    await ends(unknownEnded, paid);
    const unknownOpen = await start('[[slow:90s]] a beaver since, still open');
    await taken(unknownOpen);

    await Promise.all([stack.kill('api'), stack.kill('worker')]);
    await stack.copyData('temporal', 'put back');
    await Promise.all([stack.start('api'), stack.start('worker')]);
    // The workflow runs again, and its job is already settled.
    const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
    const { workflow } = new Client({ connection });
    const outcome = await workflow.getHandle(endedSince).result();
    expect(outcome).toMatchObject({ status: 'completed', billing: 'charged' });
    await connection.close();
    await ends(unknownOpen, lost);
    await ends(stillOpen, paid);
    for (const jobId of [endedSince, unknownEnded]) expect(await stateOf(jobId)).toEqual(paid);
    for (const jobId of [endedSince, stillOpen, unknownEnded, unknownOpen]) {
      expect(await acceptedOf(jobId)).toBe(1);
    }
  });
});

describe('Temporal restored to an earlier time under running workers', () => {
  const deadlineMs = 45_000;
  const checkMs = 2000;
  const waitMs = 6000;
  // Twice the job's time and thirty checks (docs/backup.md), and 45 s for a busy machine.
  const endsWithinMs = 2 * (deadlineMs + waitMs) + 30 * checkMs + 45_000;
  startWith({
    IMAGE_DEADLINE_MS: String(deadlineMs),
    OUTCOME_WAIT_MS: String(waitMs),
    RESERVATION_TTL_MS: String(checkMs),
  });

  it('leaves jobs that a reset can continue, and releases the others within the time limit', async () => {
    const jobs = await Promise.all(
      [28, 30, 32, 34, 36, 38, 40, 42].map((seconds) => start(`[[slow:${seconds}s]] a stork`)),
    );
    const bornAtMs = Date.now();
    await Promise.all(jobs.map(taken));
    /** Waits until each job has had more than this number of timers. */
    const checked = (times: number) =>
      expect
        .poll(() => Promise.all(jobs.map(timersOf)).then((all) => Math.min(...all)), {
          interval: lookMs,
        })
        .toBeGreaterThan(times);
    await checked(2);
    await stack.copyData('temporal', 'take');
    await checked(4);
    await stack.copyData('temporal', 'put back');

    // Workflow tasks fail, because events of the worker's cache are not in the restored history.
    const failing = async () => {
      const attempts = await Promise.all(jobs.map(failedTasksOf));
      return jobs.filter((_, index) => (attempts[index] ?? 0) > 2);
    };
    await expect
      .poll(async () => (await failing()).length, { timeout: 60_000, interval: lookMs })
      .toBeGreaterThanOrEqual(2);
    const [saved = ''] = await failing();
    await resetToStart(saved);
    await ends(saved, paid);

    const states = () => Promise.all(jobs.map((jobId) => stateOf(jobId)));
    const isOpen = (state: JobState | null) => state?.status === 'open';
    await expect
      .poll(async () => (await states()).filter(isOpen), {
        timeout: endsWithinMs - (Date.now() - bornAtMs),
        interval: lookMs,
      })
      .toEqual([]);
    const ended = await states();
    expect(ended).toContainEqual(lost);
    for (const [index, jobId] of jobs.entries()) {
      expect([paid, lost]).toContainEqual(ended[index]);
      expect(await acceptedOf(jobId)).toBe(1);
    }
  });
});

/** Sends a request to Temporal by a new connection, because the server is restarted. */
async function askTemporal<Answer>(
  question: (connection: Connection) => Promise<Answer>,
): Promise<Answer> {
  const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
  try {
    return await question(connection);
  } finally {
    await connection.close();
  }
}

/** Returns the number of timers that a job's workflow has started: one before each check. */
const timersOf = (jobId: string): Promise<number> =>
  askTemporal(async (connection) => {
    const { events } = await new Client({ connection }).workflow.getHandle(jobId).fetchHistory();
    return (events ?? []).filter((event) => event.timerStartedEventAttributes).length;
  });

/** Returns the attempt of the pending workflow task; 0 if there is none. */
const failedTasksOf = (jobId: string): Promise<number> =>
  askTemporal(async (connection) => {
    const { raw } = await new Client({ connection }).workflow.getHandle(jobId).describe();
    return raw.pendingWorkflowTask?.attempt ?? 0;
  });

/** Resets a workflow with the command of docs/backup.md. */
async function resetToStart(jobId: string): Promise<void> {
  const server = ['--address', stack.env['TEMPORAL_ADDRESS'] ?? ''];
  const which = ['--query', `WorkflowId="${jobId}"`, '--type', 'FirstWorkflowTask'];
  const reset = ['workflow', 'reset', ...which, '--reason', 'restored', '--yes', ...server];
  await promisify(execFile)(await findTemporalCli(), reset);
}
