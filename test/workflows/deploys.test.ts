/**
 * Deployments: jobs that began on one version end on another, or on their own; a reset charges
 * nothing.
 */
import { randomUUID } from 'node:crypto';
import type { NativeConnection } from '@temporalio/worker';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connectWorkers } from '../../worker/runtime.ts';
import { startStudioWorkers, type StudioWorkers } from '../../worker/studio-worker.ts';
import { checkNow } from '../../jobs/contract.ts';
import { additionalStep, bundleChanged, type SourceChange } from '../harness/changed-workflows.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

const namespace = 'default';
let gateway: TestGateway;
const connections: NativeConnection[] = [];
/** Opens a connection for the workers of one version, as each process has its own. */
async function connect(): Promise<NativeConnection> {
  const connection = await connectWorkers(gateway.config);
  connections.push(connection);
  return connection;
}
afterEach(() => gateway.expectSettled());

async function start(prompt: string): Promise<string> {
  const answer = await gateway.call('/api/v1/studio/image/generate', {
    body: { prompt, async: true },
  });
  expect(answer.status).toBe(202);
  return answer.body.data.jobId;
}

async function entriesOf(jobId: string): Promise<string[]> {
  const rows = await gateway.database.query<{ kind: string }>(
    'SELECT kind FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence',
    [jobId],
  );
  return rows.map((row) => row.kind);
}

async function eventsOf(jobId: string) {
  const { events } = await gateway.api.client.workflow.getHandle(jobId).fetchHistory();
  return events ?? [];
}

/** Returns the builds that ran the workflow tasks of a job, in order. */
async function buildsOf(jobId: string): Promise<string[]> {
  await gateway.api.client.workflow.getHandle(jobId).result();
  const builds = (await eventsOf(jobId)).flatMap(
    (event) =>
      event.workflowTaskCompletedEventAttributes?.deploymentVersion?.buildId?.toString() ?? [],
  );
  return [...new Set(builds)];
}

async function expectPaidOnce(jobs: string[]): Promise<void> {
  for (const jobId of jobs) {
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await entriesOf(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  }
}

/** Additional step between the reservation and the calls. */
const moreSteps = (guard: string): SourceChange[] => [
  {
    file: 'studio-job.ts',
    from: '    outputs = await assemble(job,',
    to: `    if (${guard}) ${additionalStep}\n    outputs = await assemble(job,`,
  },
  { file: 'studio-job.ts', from: '{ CancellationScope }', to: '{ CancellationScope, patched }' },
];

describe('a deployment with a changed job workflow', () => {
  beforeAll(async () => {
    // The workers of the builds replace each other.
    gateway = await startGateway({
      worker: false,
      latencyMs: 20,
      // Jobs wait until the test sends their webhooks, however long a deployment takes.
      env: { FIRST_CHECK_MAX_MS: '60000' },
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
        const workers = await startStudioWorkers({
          config: {
            ...gateway.config,
            WORKER_DEPLOYMENT_NAME: deploymentName,
            WORKER_BUILD_ID: buildId,
            WORKER_VERSIONING: how,
          },
          connection,
          services: gateway.api.services,
          workflowBundle: await bundleChanged(changes),
        });
        running.push(workers);
        // The server registers a version when its workers poll.
        await expect
          .poll(() =>
            connection.workflowService
              .setWorkerDeploymentCurrentVersion({
                namespace,
                deploymentName,
                buildId,
                identity: 'test',
              })
              .then(
                () => 'current',
                () => 'unknown',
              ),
          )
          .toBe('current');
        // Tasks go to the previous version until the queue is updated. A job shows this, because the
        // server's `routingConfigUpdateState` was seen unchanged for minutes.
        await expect
          .poll(async () => buildsOf(await start('a probe')), { timeout: 240_000, interval: 500 })
          .toEqual([buildId]);
      };
      await deploy('A', []);
      const before = await Promise.all(
        ['a wall', 'a gate', 'a tower'].map((prompt) => start(`[[no-webhook]] ${prompt}`)),
      );
      for (const jobId of before) {
        await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
      }
      await deploy('B', moreSteps(guard));
      for (const jobId of before) {
        const [submit] = await gateway.sandbox.submits({ jobId });
        await gateway.sandbox.resend(submit?.requestId ?? '', { signature: 'good' });
      }
      const after = await start('a moat');
      await expectPaidOnce([...before, after]);
      for (const jobId of before) expect(await buildsOf(jobId)).toEqual(builds);
      expect(await buildsOf(after)).toEqual(['B']);
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

  /** Resets a workflow to each of its workflow tasks in turn, and waits for the end of each run. */
  async function resetToEach(jobId: string): Promise<number> {
    const { workflow } = gateway.api.client;
    const first = (await workflow.getHandle(jobId).describe()).runId;
    const tasks = (await eventsOf(jobId))
      .filter((event) => event.workflowTaskCompletedEventAttributes)
      .map((event) => event.eventId);
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
      await handle.result().catch(() => {});
    }
    return tasks.length;
  }

  it('after its charge is neither charged nor sent again', async () => {
    const jobId = await start('[[slow:1s]] a drawbridge');
    await expectPaidOnce([jobId]);
    await gateway.api.client.workflow.getHandle(jobId).result();
    expect(await resetToEach(jobId)).toBeGreaterThan(1);
    await expectPaidOnce([jobId]);
  });

  it('after a cancellation before its submit is not sent', async () => {
    const admin = (where: string, body: object = {}) =>
      gateway.call(`/api/admin/v1${where}`, {
        key: gateway.config.ADMIN_API_KEY,
        body: { actor: 'test', reason: 'test', ...body },
      });
    await admin('/providers/fal/pause');
    const jobId = await start('an unbuilt drawbridge');
    const path = `/api/v1/studio/jobs/${jobId}`;
    await expect
      .poll(async () => (await gateway.call(path)).body.data.phase)
      .toBe('waiting_for_provider');
    await gateway.call(`${path}/cancel`, { method: 'POST' });
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
    await admin('/providers/fal/resume');
    await gateway.api.client.workflow
      .getHandle(jobId)
      .result()
      .catch(() => {});
    await resetToEach(jobId);
    expect(await gateway.sandbox.submits({ jobId })).toEqual([]);
    expect(await entriesOf(jobId)).toEqual(['reserve', 'release']);
  });
});
