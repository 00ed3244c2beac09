/**
 * Deployments: jobs that began on one version end on another, or on their own; a reset charges
 * nothing.
 */
import { randomUUID } from 'node:crypto';
import proto from '@temporalio/proto';
import type { NativeConnection } from '@temporalio/worker';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connectWorkers } from '../../worker/runtime.ts';
import { startStudioWorkers, type StudioWorkers } from '../../worker/studio-worker.ts';
import { checkNow } from '../../domain/job-contract.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';
import { additionalStep, bundleChanged, type SourceChange } from '../harness/changed-workflows.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';

const { ResetReapplyExcludeType } = proto.temporal.api.enums.v1;
type TaskEventId =
  proto.temporal.api.workflowservice.v1.IResetWorkflowExecutionRequest['workflowTaskFinishEventId'];
const namespace = 'default';
let gateway: TestGateway;
const connections: NativeConnection[] = [];
/** Opens a connection for the workers of one version, as each process has its own. */
async function connect(): Promise<NativeConnection> {
  const connection = await connectWorkers(gateway.config);
  connections.push(connection);
  return connection;
}
afterEach(() => gateway.expectSettled('changes'));

const start = (prompt: string): Promise<string> => gateway.startImage({ prompt });

/** Returns the builds that ran the workflow tasks of a job, in order. */
async function readBuilds(jobId: string): Promise<string[]> {
  await gateway.getWorkflow(jobId).result();
  const builds = (await gateway.events(jobId)).flatMap(
    (event) =>
      event.workflowTaskCompletedEventAttributes?.deploymentVersion?.buildId?.toString() ?? [],
  );
  return [...new Set(builds)];
}

async function expectPaidOnce(jobs: string[]): Promise<void> {
  for (const jobId of jobs) {
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  }
}

/** Returns changes that add a step between the calls and the charge. */
const addStep = (guard: string): SourceChange[] => [
  {
    file: 'studio-job.ts',
    from: '  return assemble(job,',
    to: `  if (${guard}) ${additionalStep}\n  return assemble(job,`,
  },
];

describe('a deployment with a changed job workflow', () => {
  beforeAll(async () => {
    // The workers of the builds replace each other.
    gateway = await startGateway({
      worker: false,
      latencyMs: 20,
      // Jobs wait until the test sends their webhooks, however long a deployment takes.
      env: { FIRST_CHECK_MAX_MS: '600000' },
    });
  });
  afterAll(async () => {
    await gateway.close();
    for (const connection of connections) await connection.close();
  });
  const running: StudioWorkers[] = [];
  afterEach(async () => {
    for (const workers of running) workers.shutdown();
    await Promise.all(running.splice(0).map(({ done }) => done));
  });

  it.each([
    ['AUTO_UPGRADE', `patched('verify-first')`, ['A', 'B']],
    // If jobs end on the version on which they began, a change needs no patch.
    ['PINNED', 'typeof patched', ['A']],
  ] as const)(
    '%s: finishes jobs that began before it, and charges each once',
    async (how, guard, builds) => {
      const deploymentName = `studio-${randomUUID().slice(0, 8)}`;
      const deploy = async (buildId: string, changes: SourceChange[]): Promise<void> => {
        const connection = await connect();
        const version = { deploymentName, buildId };
        const names = { WORKER_DEPLOYMENT_NAME: deploymentName, WORKER_BUILD_ID: buildId };
        const workers = await startStudioWorkers({
          config: { ...gateway.config, ...names, WORKER_VERSIONING: how },
          connection,
          services: gateway.api.services,
          workflowBundle: await bundleChanged(changes),
        });
        running.push(workers);
        // The server registers a version when its workers poll.
        await expect
          .poll(() =>
            connection.workflowService
              .setWorkerDeploymentCurrentVersion({ ...version, namespace, identity: 'test' })
              .then(
                () => 'current',
                () => 'unknown',
              ),
          )
          .toBe('current');
        // Tasks go to the previous version until the queue is updated. A job shows this, because the
        // server's `routingConfigUpdateState` was seen unchanged for minutes.
        await expect
          .poll(async () => readBuilds(await start('a probe')), { timeout: 240_000, interval: 500 })
          .toEqual([buildId]);
      };
      await deploy('A', []);
      const before = await Promise.all(
        ['a wall', 'a gate', 'a tower'].map((prompt) => start(`[[no-webhook]] ${prompt}`)),
      );
      await Promise.all(before.map(gateway.untilAccepted));
      await deploy('B', addStep(guard));
      for (const jobId of before) {
        const { requestId } = await gateway.untilAccepted(jobId);
        await gateway.sandbox.resend(requestId, { signature: 'good' });
      }
      const after = await start('a moat');
      await expectPaidOnce([...before, after]);
      for (const jobId of before) expect(await readBuilds(jobId)).toEqual(builds);
      expect(await readBuilds(after)).toEqual(['B']);
    },
    600_000,
  );
});

describe('a job that is reset', () => {
  // A queue that has had a current version serves no unversioned workers, so this one is new.
  beforeAll(async () => {
    gateway = await startGateway({ latencyMs: 20 });
  });
  afterAll(() => gateway.close());

  /** Resets a workflow to each of its workflow tasks in turn, and returns the result of each run. */
  async function resetToEach(jobId: string): Promise<unknown[]> {
    const ends: unknown[] = [];
    const { workflow } = gateway.api.client;
    const first = (await workflow.getHandle(jobId).describe()).runId;
    const tasks = (await gateway.events(jobId))
      .filter((event) => event.workflowTaskCompletedEventAttributes)
      .map((event) => event.eventId);
    expect(tasks).not.toEqual([]);
    for (const workflowTaskFinishEventId of tasks) {
      const { runId } = await workflow.workflowService.resetWorkflowExecution({
        namespace,
        workflowExecution: { workflowId: jobId, runId: first },
        reason: 'test',
        requestId: randomUUID(),
        workflowTaskFinishEventId: workflowTaskFinishEventId ?? null,
      });
      const handle = workflow.getHandle(jobId, runId);
      // A run that waits for a provider would check only in a minute.
      await handle.signal(checkNow).catch(() => {});
      ends.push(await handle.result().catch(() => {}));
    }
    return ends;
  }

  it('after its charge is neither charged nor sent again', async () => {
    const jobId = await start('[[slow:1s]] a drawbridge');
    await expectPaidOnce([jobId]);
    await gateway.getWorkflow(jobId).result();
    const ends = await resetToEach(jobId);
    expect(ends.length).toBeGreaterThan(1);
    for (const end of ends) {
      expect(end).toMatchObject({
        status: 'completed',
        billing: 'charged',
        chargedMicro: 3_900_000,
      });
    }
    await expectPaidOnce([jobId]);
  });

  it('after a decision is decided, sent and charged once', async () => {
    const art = { id: 'art', use: 'image/generate', body: { prompt: 'a drawbridge' } };
    const imageUrl = { $from: 'art' };
    const cut = { id: 'cut', use: 'image/remove-background', approve: true, body: { imageUrl } };
    const { body } = await gateway.call('/api/v1/studio/pipelines', {
      body: { steps: [art, cut], async: true },
    });
    const { jobId } = body.data;
    const decide = () =>
      gateway.call(`/api/v1/studio/jobs/${jobId}/steps/cut/decision`, {
        body: { decision: 'approve' },
      });
    await expect.poll(async () => (await decide()).status).toBe(200);
    const done = (await gateway.untilDone(jobId)).body.data;
    await gateway.getWorkflow(jobId).result();
    const ends = await resetToEach(jobId);
    expect(ends.length).toBeGreaterThan(2);
    const chargedMicro = Math.round(done.billing.charged * 1_000_000);
    for (const end of ends)
      expect(end).toMatchObject({ status: 'completed', billing: 'charged', chargedMicro });
    expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(2);
    const again = await decide();
    expect(again.headers.get('Idempotent-Replayed')).toBe('true');
  });

  /** Resets a workflow to a workflow task, without the decisions that it has received since. */
  async function resetTo(jobId: string, taskEventId: TaskEventId): Promise<void> {
    const { workflow } = gateway.api.client;
    await workflow.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: {
        workflowId: jobId,
        runId: (await workflow.getHandle(jobId).describe()).runId,
      },
      reason: 'test',
      requestId: randomUUID(),
      workflowTaskFinishEventId: taskEventId ?? null,
      resetReapplyExcludeTypes: [ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE],
    });
  }

  /** Starts a pipeline of one step, which waits for a decision. */
  async function startGated(prompt: string): Promise<string> {
    const step = { id: 'late', use: 'image/generate', approve: true, body: { prompt } };
    const { body } = await gateway.call('/api/v1/studio/pipelines', {
      body: { steps: [step], async: true },
    });
    return body.data.jobId;
  }
  const approveGated = (jobId: string): Promise<void> =>
    gateway.send(`/api/v1/studio/jobs/${jobId}/steps/late/decision`, {
      body: { decision: 'approve' },
    });

  it('before it waits, waits again, and has the time for one wait', async () => {
    const jobId = await startGated('a drawbridge');
    const untilWaiting = (since?: string) =>
      until(async () => {
        const { body: read } = await gateway.call<{ data: JobResource }>(
          `/api/v1/studio/jobs/${jobId}`,
        );
        const { awaiting, deadlineAt } = read.data;
        return awaiting[0] && awaiting[0].since !== since && { ...awaiting[0], deadlineAt };
      });
    const first = await untilWaiting();
    const begin = (await gateway.events(jobId)).find(
      ({ activityTaskScheduledEventAttributes: task }) =>
        task?.activityType?.name === 'recordApproval',
    );
    const taskEventId = begin?.activityTaskScheduledEventAttributes?.workflowTaskCompletedEventId;
    await resetTo(jobId, taskEventId);
    const second = await untilWaiting(first.since);
    const movedMs = Date.parse(second.deadlineAt) - Date.parse(first.deadlineAt);
    expect(movedMs).toBeLessThan(Date.parse(second.until) - Date.parse(second.since));
    await approveGated(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
  });

  it('while it waits reads the decision that its row has, also if the reset left it out', async () => {
    const jobId = await startGated('[[no-webhook]] [[slow:900s]] a drawbridge');
    // The task whose end started the wait.
    const taskEventId = await until(async () => {
      const events = await gateway.events(jobId);
      const timer = events.find((event) => event.timerStartedEventAttributes);
      return timer?.timerStartedEventAttributes?.workflowTaskCompletedEventId;
    });
    await approveGated(jobId);
    await gateway.untilAccepted(jobId);
    await resetTo(jobId, taskEventId);
    const countRecords = async () =>
      (await gateway.events(jobId)).filter(
        ({ activityTaskScheduledEventAttributes: task }) =>
          task?.activityType?.name === 'recordApproval',
      ).length;
    expect(await countRecords()).toBe(1);
    await gateway.database.query(
      "UPDATE reservation SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1",
      [jobId],
    );
    await sweepOnce(gateway);
    await expect.poll(countRecords).toBe(2);
    await gateway.cancel(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it('after its release sends nothing, although the provider accepts calls again', async () => {
    const jobId = await start('[[submit:422x1]] a rejected drawbridge');
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('failed');
    await gateway
      .getWorkflow(jobId)
      .result()
      .catch(() => {});
    for (const end of await resetToEach(jobId)) {
      expect(end).toMatchObject({ status: 'failed', billing: 'released' });
    }
    expect(await gateway.sandbox.submits({ jobId })).toEqual([]);
  });

  it('after a cancellation before its submit is not sent', async () => {
    await gateway.operate('/providers/fal/pause', {});
    const jobId = await start('an unbuilt drawbridge');
    const path = `/api/v1/studio/jobs/${jobId}`;
    await expect
      .poll(async () => (await gateway.call(path)).body.data.phase)
      .toBe('waiting_for_provider');
    await gateway.cancel(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
    await gateway.operate('/providers/fal/resume', {});
    await gateway
      .getWorkflow(jobId)
      .result()
      .catch(() => {});
    await resetToEach(jobId);
    expect(await gateway.sandbox.submits({ jobId })).toEqual([]);
    expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'release']);
  });
});
