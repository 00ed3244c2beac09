/**
 * Workflows that end without a settlement: terminated, or timed out. No reservation stays open.
 * test/workflows/deploys.slow.test.ts resets workflows, and test/runbooks/servers.slow.test.ts loses the
 * database of Temporal.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JobPlan } from '../../domain/job-plan.ts';
import { findViolations } from '../../ledger/invariants.ts';
import { createCalls, states } from '../faults/calls.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

let stack: FaultStack;
let calls: ReturnType<typeof createCalls>;
beforeAll(async () => {
  stack = await startStack();
  calls = createCalls(stack);
});
afterAll(async () => {
  expect((await findViolations(stack.databaseUrl, { scope: 'all' })).findings).toEqual([]);
  await stack.close();
});

it('a workflow that ends without a settlement is released after termination or timeout; a running workflow is left alone', async () => {
  const [terminated, running] = await Promise.all([
    calls.start('[[slow:60s]] a terminated fox'),
    calls.start('[[slow:9s]] a patient fox'),
  ]);
  await calls.untilAccepted(terminated);
  // The gateway starts no workflow with a timeout, but an operator may.
  const timedOut = `job_${randomUUID().replaceAll('-', '')}`;
  await calls.withTemporal(async ({ workflow }) => {
    await workflow.getHandle(terminated).terminate('test');
    const { events } = await workflow.getHandle(terminated).fetchHistory();
    const started = events?.[0]?.workflowExecutionStartedEventAttributes;
    const input = Buffer.from(started?.input?.payloads?.[0]?.data ?? '').toString('utf8');
    const plan = JSON.parse(input) as JobPlan;
    await workflow.start(plan.type, {
      workflowId: timedOut,
      taskQueue: 'studio',
      // Long enough to reserve its credits on a busy machine.
      workflowExecutionTimeout: '10s',
      args: [{ ...plan, jobId: timedOut }],
    });
  });
  for (const jobId of [terminated, timedOut])
    await calls.untilState(jobId, states.failed('JOB_LOST'));
  // Twice the time of its reservation has passed, and its workflow still runs.
  await calls.untilState(running, states.paid);
});
