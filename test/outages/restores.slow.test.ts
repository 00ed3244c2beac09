/**
 * One database is restored to an earlier time, and the other keeps its state: jobs end as
 * docs/backup.md describes, with APIs and workers stopped meanwhile, and with running workers. No
 * job is charged twice, no reservation stays open, and the audit finds nothing.
 */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Client } from '@temporalio/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findViolations } from '../../ledger/invariants.ts';
import { findTemporalCli } from '../../dev/stack/temporal-cli.ts';
import { createCalls, shortChat, states, type JobState } from '../faults/calls.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';
import { makeForm } from '../harness/uploads.ts';

let stack: FaultStack;
let calls: ReturnType<typeof createCalls>;
/** Starts a stack with these settings before each test of a `describe`. */
const useStack = (env: Record<string, string> = {}) =>
  beforeEach(async () => {
    stack = await startStack({ env });
    calls = createCalls(stack);
  });
afterEach(async () => {
  const open = () => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`);
  await expect.poll(open, { interval: lookMs }).toEqual([]);
  expect((await findViolations(stack.databaseUrl, { scope: 'all' })).findings).toEqual([]);
  await stack.close();
});

/** Interval of polls of jobs that take many seconds. */
const lookMs = 1000;
const { open, paid } = states;
const lost = states.failed('JOB_LOST');
const start = (prompt: string) => calls.start(prompt);
const untilState = (jobId: string, state: JobState | null) =>
  calls.untilState(jobId, state, lookMs);
const readResult = (jobId: string) =>
  calls.withTemporal(({ workflow }) => workflow.getHandle(jobId).result());
/** Waits until the provider has accepted the call, and its operation is recorded. */
async function untilTaken(jobId: string): Promise<void> {
  await calls.untilAccepted(jobId);
  expect(await calls.countAccepted(jobId)).toBe(1);
}
const bulkPath = '/api/v1/studio/bulk';
interface Bulk {
  bulkId: string;
  done: boolean;
  counts: { completed: number; failed: number };
}
const readBulk = (answer: Awaited<ReturnType<typeof calls.request>>) =>
  answer.body.data as unknown as Bulk;
async function startBulk(word: string, count: number): Promise<string> {
  const items = Array.from({ length: count }, (_, index) => ({
    use: 'image/generate',
    body: { prompt: `[[slow:2s]] ${word} ${index}` },
  }));
  const answer = await calls.request(bulkPath, { body: { items, concurrency: 2 } });
  expect(answer).toMatchObject({ status: 202 });
  return readBulk(answer).bulkId;
}
async function untilBulkDone(bulkId: string): Promise<Bulk> {
  const read = async () => readBulk(await calls.request(`${bulkPath}/${bulkId}`));
  await expect
    .poll(async () => (await read()).done, { timeout: 120_000, interval: lookMs })
    .toBe(true);
  return read();
}
async function startPipeline(prompt: string): Promise<string> {
  const steps = [{ id: 'art', use: 'image/generate', body: { prompt } }];
  const answer = await calls.request('/api/v1/studio/pipelines', { body: { steps, async: true } });
  expect(answer).toMatchObject({ status: 202 });
  return answer.body.data.jobId;
}
/** Starts a batch of two slow chats. */
async function startBatch(): Promise<string> {
  const url = '/v1/chat/completions';
  const messages = [{ role: 'user', content: '[[slow:8s]] an otter in lines' }];
  const lines = ['a', 'b'].map((id) =>
    JSON.stringify({ custom_id: id, method: 'POST', url, body: { ...shortChat, messages } }),
  );
  const form = makeForm({ purpose: 'batch', file: new File([lines.join('\n')], 'a.jsonl') });
  const headers = { authorization: `Bearer ${stack.caller.key}` };
  const file = await fetch(`${stack.url}/v1/files`, { method: 'POST', headers, body: form });
  const { id } = (await file.json()) as { id: string };
  const body = { input_file_id: id, endpoint: url, completion_window: '24h' };
  const answer = await calls.request('/v1/batches', { body });
  expect(answer).toMatchObject({ status: 200 });
  return (answer.body as unknown as { id: string }).id;
}
/** Starts a pipeline, and returns its job once a step waits for a decision. */
async function startWaiting(): Promise<string> {
  const body = { prompt: 'an otter to choose' };
  const step = { id: 'art', use: 'image/generate', approve: true, body };
  const path = '/api/v1/studio/pipelines';
  const answer = await calls.request(path, { body: { steps: [step], async: true } });
  const { jobId } = answer.body.data;
  const readPhase = async () => (await calls.request(`/api/v1/studio/jobs/${jobId}`)).body.data;
  await expect.poll(readPhase).toMatchObject({ phase: 'awaiting_approval' });
  return jobId;
}
const approve = (jobId: string) =>
  calls.request(`/api/v1/studio/jobs/${jobId}/steps/art/decision`, {
    body: { decision: 'approve' },
  });
/** Returns how many submits with this text the provider has accepted. */
const countSent = async (match: string) =>
  (await calls.sandbox<object[]>(`submits?match=${encodeURIComponent(match)}`)).length;
/** Restores a copy of a server's data while the processes of the gateway are stopped. */
async function restore(part: 'postgres' | 'temporal', meanwhile?: () => Promise<void>) {
  const processes = ['api', 'worker'] as const;
  await Promise.all(processes.map(stack.kill));
  await stack.copyData(part, 'put back');
  await meanwhile?.();
  await Promise.all(processes.map((process) => stack.start(process)));
}

describe('a database restored to an earlier time while the other keeps its state', () => {
  useStack();

  it('ends each job as docs/backup.md describes, first with Postgres, then with Temporal', async () => {
    const ended = await start('an otter before');
    await untilState(ended, paid);
    const [left, saved, stillOpen] = await Promise.all([
      start('[[slow:20s]] an otter left to the sweeper'),
      start('[[slow:20s]] an otter that an operator saves'),
      start('[[slow:60s]] an otter that takes its time'),
    ]);
    await Promise.all([left, saved, stillOpen].map(untilTaken));
    const bulkId = await startBulk('an otter in bulk', 6);
    const pipeline = await startPipeline('[[slow:15s]] an otter in steps');
    const [decided, undecided] = [await startWaiting(), await startWaiting()];
    const batchId = await startBatch();
    const chats = `SELECT id FROM reservation WHERE kind = 'chat' AND state = 'reserved'`;
    await expect.poll(() => stack.query(chats), { interval: 100 }).toHaveLength(2);
    await expect.poll(() => countSent('an otter in bulk'), { interval: 100 }).toBeGreaterThan(0);
    await expect.poll(() => countSent('an otter in steps'), { interval: 100 }).toBe(1);
    await stack.copyData('postgres', 'take');
    await Promise.all([left, saved, pipeline].map((jobId) => untilState(jobId, paid)));
    await untilBulkDone(bulkId);
    expect(await countSent('an otter in bulk')).toBe(6);
    expect((await untilBulkDone(batchId)).counts).toMatchObject({ completed: 2, failed: 0 });
    expect((await approve(decided)).status).toBe(200);
    await untilState(decided, paid);
    const forgotten = await start('an otter since');
    await untilState(forgotten, paid);
    const forgottenOpen = await start('[[slow:40s]] an otter since, still open');
    await untilTaken(forgottenOpen);
    // Longer than a workflow task, so that Temporal has recorded the reservation and the submit.
    await sleep(5000);
    const justSent = await start('[[slow:5s]] an otter that was sent a moment ago');
    await expect.poll(() => calls.countAccepted(justSent)).toBe(1);

    await restore('postgres', async () => {
      for (const jobId of [left, saved, stillOpen])
        expect(await calls.readState(jobId)).toEqual(open);
      // First step of docs/backup.md, for one of the two jobs.
      const extend = `UPDATE reservation SET expires_at = now() + interval '1 hour' WHERE id = $1`;
      await stack.query(extend, [saved]);
    });
    expect((await calls.requestAdmin(`/jobs/${saved}`)).body.data.why).toContain(
      'workflow ended (COMPLETED) without settling the reservation',
    );
    expect((await calls.requestAdmin(`/jobs/${saved}/resettle`, {})).status).toBe(202);
    await untilState(saved, paid);
    await untilState(left, lost);
    await untilState(stillOpen, paid);
    // The workflow of the bulk job has ended, so the sweeper stops it. If it is resumed, no item is
    // sent again; those that had ended since the backup are lost.
    await untilBulkDone(bulkId);
    expect((await calls.request(`${bulkPath}/${bulkId}/resume`, { body: {} })).status).toBe(200);
    const { completed, failed } = (await untilBulkDone(bulkId)).counts;
    expect(completed + failed).toBe(6);
    expect(failed).toBeGreaterThan(0);
    expect(await countSent('an otter in bulk')).toBe(6);
    await untilState(pipeline, lost);
    expect(await countSent('an otter in steps')).toBe(1);
    await untilState(decided, lost);
    expect((await approve(undecided)).status).toBe(200);
    await untilState(undecided, paid);
    // Chats have no workflow, so the restored database cannot learn how those that ran at the backup ended.
    expect((await untilBulkDone(batchId)).counts).toMatchObject({ completed: 0, failed: 2 });
    expect((await calls.request(`/v1/batches/${batchId}`)).body).toMatchObject({
      status: 'failed',
      errors: { data: [{ code: 'workflow_lost' }] },
    });
    expect((await calls.request(`${bulkPath}/${batchId}/retry`, { body: {} })).status).toBe(200);
    expect((await untilBulkDone(batchId)).counts).toMatchObject({ completed: 2, failed: 0 });
    expect(await calls.readState(ended)).toEqual(paid);
    for (const jobId of [forgotten, forgottenOpen]) {
      expect((await calls.requestAdmin(`/jobs/${jobId}`)).status).toBe(404);
    }
    const outcome = { status: 'failed', billing: 'released' };
    expect(await readResult(forgottenOpen)).toMatchObject(outcome);
    // If Temporal has not recorded the first steps, they run and send again; otherwise the job is lost.
    const readStatus = async () => (await calls.readState(justSent))?.status;
    await expect.poll(readStatus).toBeOneOf([undefined, 'completed']);
    const submitsMax = (await calls.readState(justSent)) ? 2 : 1;
    expect(await calls.countAccepted(justSent)).toBeLessThanOrEqual(submitsMax);
    // No other call was sent a second time.
    for (const jobId of [ended, left, saved, stillOpen, forgotten, forgottenOpen]) {
      expect(await calls.countAccepted(jobId)).toBe(1);
    }
    await restoreTemporal();
  });

  async function restoreTemporal(): Promise<void> {
    const [endedSince, stillOpen] = await Promise.all([
      start('[[slow:20s]] a beaver that ends in between'),
      start('[[slow:60s]] a beaver that takes its time'),
    ]);
    await Promise.all([endedSince, stillOpen].map(untilTaken));
    await stack.copyData('temporal', 'take');
    await untilState(endedSince, paid);
    const unknownEnded = await start('a beaver since');
    await untilState(unknownEnded, paid);
    const unknownOpen = await start('[[slow:90s]] a beaver since, still open');
    await untilTaken(unknownOpen);

    await restore('temporal');
    // The workflow runs again, and its job is already settled.
    const outcome = { status: 'completed', billing: 'charged' };
    expect(await readResult(endedSince)).toMatchObject(outcome);
    await untilState(unknownOpen, lost);
    await untilState(stillOpen, paid);
    for (const jobId of [endedSince, unknownEnded])
      expect(await calls.readState(jobId)).toEqual(paid);
    for (const jobId of [endedSince, stillOpen, unknownEnded, unknownOpen]) {
      expect(await calls.countAccepted(jobId)).toBe(1);
    }
  }
});

describe('Temporal restored to an earlier time under running workers', () => {
  const deadlineMs = 75_000;
  const checkMs = 1000;
  const waitMs = 6000;
  // Twice the job's time and thirty checks (docs/backup.md), and 45 s for a busy machine.
  const endsWithinMs = 2 * (deadlineMs + waitMs) + 30 * checkMs + 45_000;
  useStack({
    IMAGE_DEADLINE_MS: String(deadlineMs),
    OUTCOME_WAIT_MS: String(waitMs),
    RESERVATION_TTL_MS: String(checkMs),
  });

  it('continues jobs by a reset, and releases the others within the time limit', async () => {
    const jobs = await Promise.all(
      [52, 54, 56, 58, 60, 62, 64, 66].map((seconds) => start(`[[slow:${seconds}s]] a stork`)),
    );
    const bornAtMs = Date.now();
    await Promise.all(jobs.map(untilTaken));
    const readEach = <Result>(read: (client: Client, jobId: string) => Promise<Result>) =>
      calls.withTemporal((client) => Promise.all(jobs.map((jobId) => read(client, jobId))));
    /** Waits until each job has had more than this number of timers. */
    const leastTimers = async () => Math.min(...(await readEach(countTimers)));
    const untilChecked = (times: number) =>
      expect.poll(leastTimers, { interval: lookMs }).toBeGreaterThan(times);
    await untilChecked(2);
    await stack.copyData('temporal', 'take');
    await untilChecked(4);
    await stack.copyData('temporal', 'put back');

    // Tasks of workflows fail whose events in the worker's cache are not in the restored history. Either
    // the operator resets one after its first failure, or the sweeper has reset all before.
    const openJobs = () => stack.query(`SELECT id FROM job WHERE status = 'open'`);
    const timeout = endsWithinMs - (Date.now() - bornAtMs);
    let saved: string | undefined;
    const isDecided = async () => {
      const attempts = await readEach(readAttempt);
      saved = jobs.find((_, index) => (attempts[index] ?? 0) > 1);
      return saved !== undefined || (await openJobs()).length === 0;
    };
    await expect.poll(isDecided, { timeout, interval: 500 }).toBe(true);
    if (saved !== undefined) {
      await resetToStart(saved);
      await untilState(saved, paid);
    }
    await expect.poll(openJobs, { timeout, interval: lookMs }).toEqual([]);
    const ended = await Promise.all(jobs.map(calls.readState));
    // The sweeper resets the others too, once.
    for (const state of ended) expect([paid, lost]).toContainEqual(state);
    for (const jobId of jobs) expect(await calls.countAccepted(jobId)).toBe(1);
  });
});

/** Returns the number of timers that a job's workflow has started: one before each check. */
async function countTimers({ workflow }: Client, jobId: string): Promise<number> {
  const { events } = await workflow.getHandle(jobId).fetchHistory();
  return (events ?? []).filter((event) => event.timerStartedEventAttributes).length;
}

/** Returns the attempt of the pending workflow task; 0 if there is none. */
async function readAttempt({ workflow }: Client, jobId: string): Promise<number> {
  const { raw } = await workflow.getHandle(jobId).describe();
  return raw.pendingWorkflowTask?.attempt ?? 0;
}

/** Resets a workflow with the command of docs/backup.md. */
async function resetToStart(jobId: string): Promise<void> {
  const server = ['--address', stack.env['TEMPORAL_ADDRESS'] ?? ''];
  const which = ['--query', `WorkflowId="${jobId}"`, '--type', 'FirstWorkflowTask'];
  const reset = ['workflow', 'reset', ...which, '--reason', 'restored', '--yes', ...server];
  await promisify(execFile)(await findTemporalCli(), reset);
}
