/**
 * Workflows whose workflow task keeps failing: the sweeper resets each of them once per build, and
 * the job settles. Then it is an operator's.
 */
import type { NativeConnection } from '@temporalio/worker';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { providerNotification, workflowTaskTimeout } from '../../domain/job-contract.ts';
import { connectWorkers } from '../../worker/runtime.ts';
import { startStudioWorkers, type StudioWorkers } from '../../worker/studio-worker.ts';
import { additionalStep, bundleChanged } from '../harness/changed-workflows.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';

let gateway: TestGateway;
let connection: NativeConnection;
let workers: StudioWorkers;

/** Replaces the workers by those of another build: with an additional step, or without. */
async function deploy(build: 'with a step' | 'without'): Promise<void> {
  await stop();
  const before = '    if (plan.steps) {';
  const changes = [{ file: 'studio-job.ts', from: before, to: `${additionalStep}\n${before}` }];
  workers = await startStudioWorkers({
    config: gateway.config,
    connection,
    services: gateway.api.services,
    ...(build === 'with a step' && { workflowBundle: await bundleChanged(changes) }),
  });
}
async function stop(): Promise<void> {
  workers?.shutdown();
  await workers?.done;
}

beforeAll(async () => {
  // The builds replace each other. Jobs wait until the test sends their notification.
  gateway = await startGateway({ worker: false, env: { FIRST_CHECK_MAX_MS: '600000' } });
  connection = await connectWorkers(gateway.config);
  await deploy('with a step');
}, 300_000);
afterAll(async () => {
  await stop();
  await connection.close();
  await gateway.close();
});

interface Explained {
  data: {
    why: string;
    next: { message: string }[];
    workflow: { failingTask: { failures: number; lastError: string } | null };
  };
}
const explain = async (jobId: string) =>
  (await gateway.admin<Explained>(`/jobs/${jobId}`)).body.data;

/** Makes the workflow task of a job fail until the server reports it. */
async function diverge(jobId: string): Promise<void> {
  await gateway.getWorkflow(jobId).signal('checkNow');
  await until(async () => ((await explain(jobId)).workflow.failingTask?.failures ?? 0) >= 1);
}
/** Sweeps until a pass has done something about failing workflows. */
async function sweepFailing() {
  let counts = { reset: 0, failing: 0 };
  await until(async () => {
    const { reset, failing } = await sweepOnce(gateway);
    counts = { reset, failing };
    return reset + failing > 0;
  });
  return counts;
}

it('are reset once per build, and their jobs settle', async () => {
  const jobId = await gateway.startImage({ prompt: '[[no-webhook]] a weir' });
  const { requestId } = await gateway.untilAccepted(jobId);
  await deploy('without');
  await diverge(jobId);
  const { why, next, workflow } = await explain(jobId);
  expect(workflow.failingTask?.lastError).toContain('TMPRL1100');
  expect(why).toMatch(/its workflow task failed (once|\d+ times) and is retried; error: .*TMPRL/);
  expect(next[0]?.message).toContain(`temporal workflow reset --workflow-id ${jobId}`);
  expect(JSON.stringify(next)).not.toContain('Or wait');
  expect(await sweepFailing()).toEqual({ reset: 1, failing: 0 });

  // The reset run waits for the provider again, and diverges on the next build.
  await until(async () => (await explain(jobId)).workflow.failingTask === null);
  await until(async () =>
    (await gateway.events(jobId)).some((event) => event.timerStartedEventAttributes),
  );
  await deploy('with a step');
  await diverge(jobId);
  expect(await sweepFailing()).toEqual({ reset: 0, failing: 1 });

  await deploy('without');
  await gateway.sandbox.resend(requestId, { signature: 'good' });
  const done = await gateway.untilDone(jobId);
  expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
  expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
  expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  await gateway.expectSettled();
}, 300_000);

it('a signal that cannot be read is ignored', async () => {
  const jobId = await gateway.startImage({ prompt: '[[no-webhook]] a sluice' });
  const { requestId } = await gateway.untilAccepted(jobId);
  for (const input of [null, {}, 'text', { callIndex: '0', operationId: 1 }])
    await gateway.getWorkflow(jobId).signal(providerNotification, input as never);
  await gateway.sandbox.resend(requestId, { signature: 'good' });
  const done = await gateway.untilDone(jobId);
  expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
  const [started, ...others] = await gateway.events(jobId);
  expect(others.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
  const timeout = started?.workflowExecutionStartedEventAttributes?.workflowTaskTimeout;
  expect(`${Number(timeout?.seconds)}s`).toBe(workflowTaskTimeout);
});
