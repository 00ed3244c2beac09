/**
 * Workflows that end without a settlement or start again after it: terminated, timed out, reset, or
 * lost with the database of Temporal. No reservation stays open, and no job is charged twice.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobPlan } from '../../jobs/job-plan.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { startStack, type FaultStack } from './stack.ts';

let stack: FaultStack;
let connection: Connection;
let client: Client;

async function connect(): Promise<void> {
  connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
  client = new Client({ connection });
}
beforeAll(async () => {
  stack = await startStack();
  await connect();
});
afterAll(async () => {
  expect(await findViolations(stack.databaseUrl)).toEqual([]);
  await connection.close();
  await stack.close();
});

const path = '/api/v1/studio/image/generate';

interface Told {
  status: number;
  data: { jobId: string };
}

async function submit(prompt: string, isAsync = true): Promise<Told> {
  const answer = await fetch(stack.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${stack.caller.key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ prompt, async: isAsync }),
  });
  return { ...((await answer.json()) as Told), status: answer.status };
}

interface JobState {
  status: string;
  state: string;
  code: string | null;
  entries: string[];
}

async function stateOf(jobId: string): Promise<JobState | undefined> {
  const [job] = await stack.query<JobState>(
    `SELECT j.status, r.state, j.error->>'code' AS code, ARRAY(SELECT e.kind::text FROM ledger_entry e
       WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries
     FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = $1`,
    [jobId],
  );
  return job;
}

async function accepted(jobId: string): Promise<number> {
  const answer = await fetch(`${stack.sandboxUrl}/_sandbox/submits?jobId=${jobId}`);
  const body = (await answer.json()) as unknown[] | { submits: unknown[] };
  return (Array.isArray(body) ? body : body.submits).length;
}

const taken = (jobId: string) => expect.poll(() => accepted(jobId)).toBe(1);
const lost = {
  status: 'failed',
  state: 'released',
  code: 'JOB_LOST',
  entries: ['reserve', 'release'],
};
const paid = { status: 'completed', state: 'charged', code: null, entries: ['reserve', 'charge'] };

/** Resets a workflow to one of its completed workflow tasks; the first has number 1. */
async function reset(jobId: string, task: 'first' | 'last'): Promise<void> {
  const { events } = await client.workflow.getHandle(jobId).fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  const eventId = (task === 'first' ? tasks[0] : tasks.at(-1))?.eventId;
  if (!eventId) throw new Error('no workflow task has completed');
  await connection.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: jobId },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: eventId,
  });
}

async function untilClosed(jobId: string): Promise<void> {
  const status = async () => (await client.workflow.getHandle(jobId).describe()).status.name;
  await expect.poll(status).not.toBe('RUNNING');
}

describe('a workflow that ends without a settlement', () => {
  it('is released after termination or timeout; a running workflow is left alone', async () => {
    const [terminated, running] = await Promise.all([
      submit('[[slow:60s]] a terminated fox'),
      submit('[[slow:9s]] a patient fox'),
    ]);
    await taken(terminated.data.jobId);
    await client.workflow.getHandle(terminated.data.jobId).terminate('test');

    // The gateway starts no workflow with a timeout, but an operator may.
    const { events } = await client.workflow.getHandle(running.data.jobId).fetchHistory();
    const input = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]?.data;
    const plan = JSON.parse(Buffer.from(input ?? '').toString('utf8')) as JobPlan;
    const timedOutId = `job_${randomUUID().replaceAll('-', '')}`;
    await client.workflow.start(plan.type, {
      workflowId: timedOutId,
      taskQueue: 'studio',
      workflowExecutionTimeout: '2s',
      args: [{ ...plan, jobId: timedOutId }],
    });
    await expect.poll(() => stateOf(timedOutId)).toBeDefined();

    await expect.poll(() => stateOf(terminated.data.jobId)).toEqual(lost);
    await expect.poll(() => stateOf(timedOutId)).toEqual(lost);
    // Twice the time of its reservation has passed, and its workflow still runs.
    await expect.poll(() => stateOf(running.data.jobId)).toEqual(paid);
  });
});

describe('a workflow that is reset', () => {
  it('after its charge charges nothing again, from any workflow task', async () => {
    for (const task of ['first', 'last'] as const) {
      const { data } = await submit(`a fox reset to its ${task} task`);
      await expect.poll(() => stateOf(data.jobId)).toEqual(paid);
      await untilClosed(data.jobId);
      await reset(data.jobId, task);
      const outcome = await client.workflow.getHandle(data.jobId).result();
      expect(outcome).toMatchObject({ status: 'completed', billing: 'charged' });
      expect((outcome as { chargedMicro: number }).chargedMicro).toBeGreaterThan(0);
      expect(await stateOf(data.jobId)).toEqual(paid);
      expect(await accepted(data.jobId)).toBe(1);
    }
  });

  it('after its release sends nothing to the provider', async () => {
    const { data } = await submit('[[submit:422x1]] a fox that nobody took');
    await expect.poll(() => stateOf(data.jobId)).toMatchObject({ state: 'released' });
    await untilClosed(data.jobId);
    // The provider accepts calls again.
    await reset(data.jobId, 'first');
    const outcome = await client.workflow.getHandle(data.jobId).result();
    expect(outcome).toMatchObject({ status: 'failed', billing: 'released' });
    expect(await accepted(data.jobId)).toBe(0);
  });
});

describe('a Temporal server that lost its database', () => {
  it('runs new jobs, and the reservations of lost workflows are released', async () => {
    const prompts = Array.from({ length: 10 }, (_, index) => `[[slow:60s]] fox number ${index}`);
    const jobs = await Promise.all(prompts.map((prompt) => submit(prompt)));
    await Promise.all(jobs.map(({ data }) => taken(data.jobId)));
    await connection.close();
    await stack.wipeTemporal();
    await connect();
    for (const { data } of jobs) {
      await expect.poll(() => stateOf(data.jobId)).toEqual(lost);
    }
    const next = async () => (await submit('a fox after the flood', false)).status;
    await expect.poll(next, { interval: 1000 }).toBe(200);
    expect(stack.takeLost()).toEqual([]);
  });
});
