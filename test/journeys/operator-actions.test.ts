/**
 * Operator actions for stuck jobs and failing providers: each action is recorded, and no job is
 * charged twice.
 */
import { describe, expect, it } from 'vitest';
import { resettle } from '../../studio/jobs/job-endings.ts';
import { newId } from '../../domain/ids.ts';
import { createJobOverview, type JobRecord } from '../../studio/jobs/job-reads.ts';
import type { CallFinding } from '../../studio/jobs/status-checks.ts';
import {
  operatorAction,
  useGateway,
  type StudioBody,
  type TestGateway,
} from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';

interface Data {
  paused: { actor: string; reason: string } | null;
  jobId: string;
  decision: string;
  reasons: string[];
  findings: { verdict: string }[];
}
interface Body<Shape> extends StudioBody<Shape> {
  counts: { verifying: number; released: number };
}

/** Returns what operators of a gateway do. */
function createOperators(gateway: TestGateway) {
  return {
    read: async (where: string) => (await gateway.admin<Body<Data[]>>(where)).body,
    write: (where: string, body: object = {}) => gateway.admin<Body<Data>>(where, body),
    start: (prompt: string) => gateway.startImage({ prompt }),
    async whilePaused(run: () => Promise<void>) {
      await gateway.operate('/providers/fal/pause', {});
      try {
        await run();
      } finally {
        await gateway.operate('/providers/fal/resume', {});
      }
    },
    /** Waits until a job waits for its paused provider. */
    untilWaiting: (jobId: string) =>
      expect
        .poll(async () => (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.phase)
        .toBe('waiting_for_provider'),
    /** Checks the job at the provider until the provider has finished it. */
    untilSeenDone: (jobId: string) =>
      expect
        .poll(async () => {
          const response = await createOperators(gateway).write(`/jobs/${jobId}/reverify`);
          return response.body.data.findings[0]?.verdict;
        })
        .toBe('succeeded'),
    /** Waits for the end of a job, which one provider call completed, and whose price was charged once. */
    async expectCharged(jobId: string) {
      expect((await gateway.untilDone(jobId)).body.data).toMatchObject({
        status: 'completed',
        billing: { charged: 3.9 },
      });
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
      expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    },
    listActions: async (subject: string) =>
      (
        await gateway.database.query<{ action: string }>(
          'SELECT action FROM admin_action WHERE subject = $1 ORDER BY id',
          [subject],
        )
      ).map(({ action }) => action),
  };
}

describe('a paused provider', () => {
  const gateway = useGateway();
  const operators = createOperators(gateway);

  it('receives no new calls: jobs wait, show the pause, and continue after the resume', async () => {
    const before = await operators.listActions('fal');
    expect((await operators.write('/providers/fal/pause')).body.data.paused).toMatchObject(
      operatorAction,
    );
    await gateway.operate('/providers/fal/pause', { reason: 'again' });
    const jobs = [await operators.start('a patient heron'), await operators.start('another heron')];
    for (const jobId of jobs) await operators.untilWaiting(jobId);
    const { body: queued } = await gateway.call('/api/v1/studio/jobs?status=queued');
    expect(queued.data).toMatchObject(jobs.map(() => ({ status: 'queued' })));
    const stuck = await operators.read('/stuck?olderThanSeconds=0');
    expect(stuck.data.map(({ reasons }) => reasons)).toEqual(
      jobs.map(() => [
        expect.stringMatching(/^call 1 is waiting: fal was paused .* by olga: ticket 7$/),
      ]),
    );
    const shown = await gateway
      .getWorkflow(jobs[0] ?? '')
      .query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(shown.currentDetails).toMatch(
      /3\.9 credits reserved[^]*call 1: waiting: the provider is paused/,
    );
    const [fal] = (await operators.read('/providers')).data;
    expect(fal).toMatchObject({ provider: 'fal', waiting: 2, paused: operatorAction });
    for (const jobId of jobs) expect(await gateway.sandbox.submits({ jobId })).toEqual([]);

    const resumed = await operators.write('/providers/fal/resume');
    expect(resumed.body.data).toMatchObject({ paused: null, signaled: 2 });
    for (const jobId of jobs) await operators.expectCharged(jobId);
    await gateway.operate('/providers/fal/resume', {});
    const recorded = ['provider.paused', 'provider.resumed'];
    expect(await operators.listActions('fal')).toEqual([...before, ...recorded]);
  });

  it('still delivers the calls that it has accepted', async () => {
    const jobId = await operators.start('[[slow:1500ms]] a heron in flight');
    await gateway.untilAccepted(jobId);
    await operators.whilePaused(async () => {
      expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    });
  });

  it('is replaced by a second provider where the model has one; a waiting job without one is canceled unsent', async () => {
    await operators.whilePaused(async () => {
      const other = { prompt: 'a heron elsewhere', model: 'alpha-image-2' };
      const otherId = await gateway.startImage(other);
      expect((await gateway.untilDone(otherId)).body.data.status).toBe('completed');
      const { endpoint } = await gateway.untilAccepted(otherId);
      expect(endpoint).toContain('images/generations');
      const jobId = await operators.start('a heron called back');
      await operators.untilWaiting(jobId);
      await gateway.operate(`/jobs/${jobId}/cancel`, {});
      const done = await gateway.untilDone(jobId);
      expect(done.body.data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
      expect(await gateway.sandbox.submits({ jobId })).toEqual([]);
    });
  });
});

describe('a job', () => {
  const gateway = useGateway({
    env: { FIRST_CHECK_MAX_MS: '30000', IMAGE_DEADLINE_MS: '60000', OUTCOME_WAIT_MS: '1500' },
  });
  const operators = createOperators(gateway);

  it('with a lost notification completes when an operator checks it at the provider', async () => {
    const jobId = await operators.start('[[no-webhook]] [[slow:300ms]] a forgotten owl');
    await gateway.untilAccepted(jobId);
    await operators.untilSeenDone(jobId);
    await gateway.untilDone(jobId);
    expect(await operators.listActions(jobId)).toContain('job.reverified');
    const after = await operators.write(`/jobs/${jobId}/reverify`);
    expect(after.body.data).toMatchObject({ status: 'completed', workflowSignaled: false });
    await operators.expectCharged(jobId);
  });

  it('with a terminated workflow continues and is charged once', async () => {
    const jobId = await operators.start('[[no-webhook]] [[slow:300ms]] an orphaned owl');
    await gateway.untilAccepted(jobId);
    const running = await operators.write(`/jobs/${jobId}/resettle`);
    expect(running).toMatchObject({ status: 409, body: { error: 'JOB_RUNNING' } });
    await gateway.getWorkflow(jobId).terminate('test');
    // The response of the provider is recorded although the workflow has ended.
    await expect
      .poll(async () => (await operators.read('/stuck?olderThanSeconds=0')).data[0]?.reasons)
      .toEqual([
        'workflow ended (TERMINATED) without settling the reservation',
        expect.stringMatching(
          /^call 1 was submitted to fal \(.+\) [\d.]+ s ago; its result is not stored$/,
        ),
      ]);
    const racing = await Promise.all(
      Array.from({ length: 5 }, () => operators.write(`/jobs/${jobId}/resettle`)),
    );
    expect(racing.map(({ status }) => status)).toContain(202);
    await operators.untilSeenDone(jobId);
    await operators.expectCharged(jobId);
    const again = await operators.write(`/jobs/${jobId}/resettle`);
    expect(again).toMatchObject({ status: 409, body: { error: 'JOB_ALREADY_DONE' } });
  });

  it('with a deleted workflow continues from the plan in its row', async () => {
    const jobId = await operators.start(
      '[[no-webhook]] [[slow:300ms]] [[status:503x1]] a lost owl',
    );
    await gateway.untilAccepted(jobId);
    await gateway.api.client.workflow.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: jobId },
    });
    await expect
      .poll(async () => (await operators.read('/stuck?olderThanSeconds=0')).data[0]?.reasons)
      .toContain('workflow missing: Temporal has no workflow with this id');
    expect((await operators.write(`/jobs/${jobId}/resettle`)).body.data.decision).toBe('taken_up');
    await operators.untilSeenDone(jobId);
    await operators.expectCharged(jobId);
  });

  it('is not released while one of its calls may still deliver', async () => {
    const job = { id: newId('job'), status: 'open' } as JobRecord;
    const findings = [{ verdict: 'failed' }, { verdict: 'pending' }] as CallFinding[];
    const services = {
      ...gateway.api.services,
      client: gateway.api.client,
      config: gateway.config,
      checkCalls: () => Promise.resolve(findings),
      jobOverview: createJobOverview(gateway.api.services.pool),
    };
    await expect(resettle(job, false, services)).rejects.toMatchObject({
      code: 'OUTCOME_UNDECIDED',
    });
  });

  it('that was never sent is released when its workflow is gone', async () => {
    await operators.whilePaused(async () => {
      const jobId = await operators.start('an owl that stayed');
      await operators.untilWaiting(jobId);
      await gateway.getWorkflow(jobId).terminate('test');
      const settled = await operators.write(`/jobs/${jobId}/resettle`);
      expect(settled.body.data).toMatchObject({
        decision: 'released',
        status: 'failed',
        errorCode: 'JOB_LOST',
        billing: 'released',
        findings: [{ verdict: 'not_sent' }],
      });
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'release']);
    });
  });
});

describe('an outcome that becomes known after the release', () => {
  const gateway = useGateway({
    // Long enough that also a busy machine sends the call before the deadline.
    env: { IMAGE_DEADLINE_MS: '6000', OUTCOME_WAIT_MS: '1000', FIRST_CHECK_MAX_MS: '300' },
  });
  const operators = createOperators(gateway);

  async function startReleased(prompt: string): Promise<string> {
    const jobId = await operators.start(prompt);
    expect((await gateway.untilDone(jobId)).body.data).toMatchObject({
      error: { code: 'OUTCOME_UNKNOWN' },
      billing: { state: 'released', charged: 0 },
    });
    return jobId;
  }

  it('is listed with the time of its notification, and is not charged', async () => {
    const jobId = await startReleased('[[reset-after-accept]] [[no-webhook]] a late swan');
    const { requestId } = await gateway.untilAccepted(jobId);
    await gateway.sandbox.resend(requestId, { signature: 'good' });
    const listed = async () =>
      (await operators.read('/unknown-outcomes')).data.filter((each) => each.jobId === jobId);
    await expect.poll(listed).toMatchObject([
      {
        jobId,
        errorCode: 'OUTCOME_UNKNOWN',
        credits: 3.9,
        calls: [{ index: 0, provider: 'fal', lateNotificationAt: expect.any(String) }],
      },
    ]);
    const { counts } = await operators.read('/unknown-outcomes');
    expect([counts.verifying, counts.released > 0]).toEqual([0, true]);
    expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'release']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it.each([
    [
      'a pipeline that completed without it',
      '/pipelines',
      async (): Promise<object> => ({
        steps: [
          { id: 'art', use: 'image/generate', body: { prompt: 'a partial swan' } },
          { id: 'bell', use: 'sfx/generate', body: { prompt: 'a bell', durationSeconds: 1 } },
        ],
      }),
      'partial swan',
    ],
    [
      'a batch that completed without it',
      '/image/batch',
      async (): Promise<object> => {
        const swan = await drawDisc(64, 64);
        const imageUrls = ['/one.png', '/two.png'].map((name) => gateway.media.put(name, swan));
        return { operation: 'remove-background', imageUrls };
      },
      'image_url',
    ],
  ])('is listed for %s, with what was released', async (_title, path, buildBody, match) => {
    await gateway.sandbox.inject({ match, faults: 'reset-after-accept no-webhook', times: 1 });
    const { body } = await gateway.call(`/api/v1/studio${path}`, {
      body: { ...(await buildBody()), async: true },
    });
    const { jobId } = body.data;
    const { status, billing } = (await gateway.untilDone(jobId)).body.data;
    expect(status).toBe('completed');
    const listed = (await operators.read('/unknown-outcomes')).data.find(
      (row) => row.jobId === jobId,
    );
    expect(listed).toMatchObject({
      errorCode: 'OUTCOME_UNKNOWN',
      credits: expect.closeTo(body.credits.cost - billing.charged, 6),
    });
    const story = await gateway.admin<{ data: { next: object[] } }>(`/jobs/${jobId}`);
    expect(story.body.data.next).toMatchObject([{ operation: 'reverifyJob' }]);
    const filter = { jobIds: [jobId] };
    const dryRun = { action: 'reverify', filter, dryRun: true };
    expect((await gateway.admin('/bulk-actions', dryRun)).body).toMatchObject({
      data: { jobs: 1, applicable: 1 },
    });
  });

  it('is found when an operator checks it at the provider, and is not charged', async () => {
    const jobId = await startReleased('[[slow:900s]] [[ignore-cancel]] [[no-webhook]] a slow swan');
    await gateway.sandbox.clearFaults();
    await operators.untilSeenDone(jobId);
    expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'release']);
  });
});
