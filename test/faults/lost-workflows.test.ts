/**
 * Workflows that end without a settlement or start again after it: terminated, timed out, or reset.
 * No reservation stays open, and no job is charged twice. test/runbooks/servers.test.ts loses the
 * database of Temporal.
 */
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobPlan } from '../../jobs/job-plan.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { callsOf, states } from './calls.ts';
import { startStack, type FaultStack } from './stack.ts';

let stack: FaultStack;
let calls: ReturnType<typeof callsOf>;
let connection: Connection;
let client: Client;
beforeAll(async () => {
  stack = await startStack();
  calls = callsOf(stack);
  connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
  client = new Client({ connection });
});
afterAll(async () => {
  expect(await findViolations(stack.databaseUrl)).toEqual([]);
  await connection.close();
  await stack.close();
});

const lost = states.failed('JOB_LOST');

/** Resets a workflow to one of its completed workflow tasks, and returns its result. */
async function resultAfterReset(jobId: string, task: 'first' | 'last'): Promise<unknown> {
  const handle = client.workflow.getHandle(jobId);
  await expect.poll(async () => (await handle.describe()).status.name).not.toBe('RUNNING');
  const { events } = await handle.fetchHistory();
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
  return client.workflow.getHandle(jobId).result();
}

describe('a workflow that ends without a settlement', () => {
  it('is released after termination or timeout; a running workflow is left alone', async () => {
    const [terminated, running] = await Promise.all([
      calls.start('[[slow:60s]] a terminated fox'),
      calls.start('[[slow:9s]] a patient fox'),
    ]);
    await calls.untilAccepted(terminated);
    await client.workflow.getHandle(terminated).terminate('test');

    // The gateway starts no workflow with a timeout, but an operator may.
    const { events } = await client.workflow.getHandle(running).fetchHistory();
    const input = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]?.data;
    const plan = JSON.parse(Buffer.from(input ?? '').toString('utf8')) as JobPlan;
    const timedOut = `job_${randomUUID().replaceAll('-', '')}`;
    await client.workflow.start(plan.type, {
      workflowId: timedOut,
      taskQueue: 'studio',
      workflowExecutionTimeout: '2s',
      args: [{ ...plan, jobId: timedOut }],
    });
    for (const jobId of [terminated, timedOut]) await calls.untilState(jobId, lost);
    // Twice the time of its reservation has passed, and its workflow still runs.
    await calls.untilState(running, states.paid);
  });
});

describe('a workflow that is reset', () => {
  it('after its charge charges nothing again, from any workflow task', async () => {
    for (const task of ['first', 'last'] as const) {
      const jobId = await calls.start(`a fox reset to its ${task} task`);
      await calls.untilState(jobId, states.paid);
      const outcome = await resultAfterReset(jobId, task);
      expect(outcome).toMatchObject({ status: 'completed', billing: 'charged' });
      expect((outcome as { chargedMicro: number }).chargedMicro).toBeGreaterThan(0);
      expect(await calls.stateOf(jobId)).toEqual(states.paid);
      expect(await calls.acceptedOf(jobId)).toBe(1);
    }
  });

  it('after its release sends nothing to the provider', async () => {
    const jobId = await calls.start('[[submit:422x1]] a fox that nobody took');
    await expect.poll(async () => (await calls.stateOf(jobId))?.entries).toContain('release');
    // The provider accepts calls again.
    const outcome = await resultAfterReset(jobId, 'first');
    expect(outcome).toMatchObject({ status: 'failed', billing: 'released' });
    expect(await calls.acceptedOf(jobId)).toBe(0);
  });
});
