/**
 * Operator actions for stuck jobs and failing providers: each action is recorded, and no job is
 * charged twice.
 */
import { describe, expect, it } from 'vitest';
import { operatorAction, useGateway, type TestGateway } from '../harness/gateway.ts';

interface Data {
  paused: { actor: string; reason: string } | null;
  jobId: string;
  decision: string;
  reasons: string[];
  findings: { verdict: string }[];
}
interface Body<Shape> {
  data: Shape;
  counts: { verifying: number; released: number };
  error: string;
}

const path = '/api/v1/studio/image/generate';

/** Operators of a gateway. */
function operatorsOf(gateway: TestGateway) {
  return {
    read: async (where: string) => (await gateway.admin<Body<Data[]>>(where)).body,
    write: (where: string, body: object = {}) => gateway.admin<Body<Data>>(where, body),
    async start(prompt: string, body: object = {}) {
      const answer = await gateway.call(path, { body: { prompt, async: true, ...body } });
      expect(answer.status).toBe(202);
      return answer.body.data.jobId;
    },
    async whilePaused(run: () => Promise<void>) {
      const { write } = operatorsOf(gateway);
      await write('/providers/fal/pause');
      try {
        await run();
      } finally {
        await write('/providers/fal/resume');
      }
    },
    phaseOf: async (jobId: string) =>
      (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.phase,
    taken: (jobId: string) =>
      expect.poll(() => gateway.sandbox.submits({ jobId }), { interval: 50 }).toHaveLength(1),
    /** Checks the job at the provider until the provider has finished it. */
    untilSeenDone: (jobId: string) =>
      expect
        .poll(async () => {
          const looked = await operatorsOf(gateway).write(`/jobs/${jobId}/reverify`);
          return looked.body.data.findings[0]?.verdict;
        })
        .toBe('succeeded'),
    entriesOf: async (jobId: string) =>
      (
        await gateway.database.query<{ kind: string }>(
          'SELECT kind FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence',
          [jobId],
        )
      ).map(({ kind }) => kind),
    actions: async (subject: string) =>
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
  const operators = operatorsOf(gateway);

  it('receives no new calls: jobs wait, show the pause, and continue after the resume', async () => {
    const before = await operators.actions('fal');
    expect((await operators.write('/providers/fal/pause')).body.data.paused).toMatchObject(
      operatorAction,
    );
    await operators.write('/providers/fal/pause', { reason: 'again' });
    const jobs = [await operators.start('a patient heron'), await operators.start('another heron')];
    for (const jobId of jobs) {
      await expect.poll(() => operators.phaseOf(jobId)).toBe('waiting_for_provider');
    }
    const [seen] = (await gateway.call(`/api/v1/studio/jobs?status=queued`)).body
      .data as unknown as { status: string }[];
    expect(seen?.status).toBe('queued');
    const stuck = await operators.read('/stuck?olderThanSeconds=0');
    expect(stuck.data.map(({ reasons }) => reasons)).toEqual(
      jobs.map(() => [
        expect.stringMatching(/^call 1 is waiting: fal was paused .* by olga: ticket 7$/),
      ]),
    );
    const shown = await gateway.api.client.workflow
      .getHandle(jobs[0] ?? '')
      .query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(shown.currentDetails).toContain('3.9 credits reserved');
    expect(shown.currentDetails).toContain('call 1: waiting: the provider is paused');
    const [fal] = (await operators.read('/providers')).data;
    expect(fal).toMatchObject({ provider: 'fal', waiting: 2, paused: operatorAction });
    for (const jobId of jobs) expect(await gateway.sandbox.submits({ jobId })).toEqual([]);

    const resumed = await operators.write('/providers/fal/resume');
    expect(resumed.body.data).toMatchObject({ paused: null, signaled: 2 });
    for (const jobId of jobs) {
      const done = await gateway.untilDone(jobId);
      expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
      expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    }
    await operators.write('/providers/fal/resume');
    const recorded = ['provider.paused', 'provider.resumed'];
    expect(await operators.actions('fal')).toEqual([...before, ...recorded]);
  });

  it('still delivers the calls that it has accepted', async () => {
    const jobId = await operators.start('[[slow:1500ms]] a heron in flight');
    await operators.taken(jobId);
    await operators.whilePaused(async () => {
      expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    });
  });

  it('is replaced by a second provider where the model has one; a waiting job without one is canceled unsent', async () => {
    await operators.whilePaused(async () => {
      const other = await gateway.call(path, {
        body: { prompt: 'a heron elsewhere', model: 'alpha-image-2' },
      });
      expect(other.status).toBe(200);
      const [submit] = await gateway.sandbox.submits({ match: 'a heron elsewhere' });
      expect(submit?.endpoint).toContain('images/generations');
      const jobId = await operators.start('a heron called back');
      await expect.poll(() => operators.phaseOf(jobId)).toBe('waiting_for_provider');
      await operators.write(`/jobs/${jobId}/cancel`);
      const done = await gateway.untilDone(jobId);
      expect(done.body.data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
      expect(await gateway.sandbox.submits({ jobId })).toEqual([]);
    });
  });
});

describe('a job', () => {
  const gateway = useGateway({
    env: {
      FIRST_CHECK_MAX_MS: '30000',
      IMAGE_DEADLINE_MS: '60000',
      OUTCOME_WAIT_MS: '1500',
    },
  });
  const operators = operatorsOf(gateway);

  it('with a lost notification completes when an operator checks it at the provider', async () => {
    const jobId = await operators.start('[[no-webhook]] [[slow:300ms]] a forgotten owl');
    await operators.taken(jobId);
    await operators.untilSeenDone(jobId);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await operators.actions(jobId)).toContain('job.reverified');
    const after = await operators.write(`/jobs/${jobId}/reverify`);
    expect(after.body.data).toMatchObject({ status: 'completed', workflowSignaled: false });
    expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'charge']);
  });

  it('with a terminated workflow continues and is charged once', async () => {
    const jobId = await operators.start('[[no-webhook]] [[slow:300ms]] an orphaned owl');
    await operators.taken(jobId);
    const running = await operators.write(`/jobs/${jobId}/resettle`);
    expect(`${running.status} ${running.body.error}`).toBe('409 JOB_RUNNING');
    await gateway.api.client.workflow.getHandle(jobId).terminate('test');
    const [line] = (await operators.read('/stuck?olderThanSeconds=0')).data;
    expect(line?.reasons).toEqual([
      'workflow ended (TERMINATED) without settling the reservation',
      expect.stringMatching(
        /^call 1 was submitted to fal \(.+\) \d+ s ago; its result is not stored$/,
      ),
    ]);
    const racing = await Promise.all(
      Array.from({ length: 5 }, () => operators.write(`/jobs/${jobId}/resettle`)),
    );
    expect(racing.map(({ status }) => status)).toContain(202);
    await operators.untilSeenDone(jobId);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const again = await operators.write(`/jobs/${jobId}/resettle`);
    expect(`${again.status} ${again.body.error}`).toBe('409 JOB_ALREADY_DONE');
  });

  it('with a deleted workflow continues from the plan in its row', async () => {
    const jobId = await operators.start('[[no-webhook]] [[slow:300ms]] an erased owl');
    await operators.taken(jobId);
    const { workflow } = gateway.api.client;
    await workflow.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: jobId },
    });
    await expect
      .poll(async () => (await operators.read('/stuck?olderThanSeconds=0')).data[0]?.reasons)
      .toContain('workflow missing: Temporal has no workflow with this id');
    expect((await operators.write(`/jobs/${jobId}/resettle`)).body.data.decision).toBe('taken_up');
    await operators.untilSeenDone(jobId);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it('that was never sent is released when its workflow is gone', async () => {
    await operators.whilePaused(async () => {
      const jobId = await operators.start('an owl that stayed');
      await expect.poll(() => operators.phaseOf(jobId)).toBe('waiting_for_provider');
      await gateway.api.client.workflow.getHandle(jobId).terminate('test');
      const settled = await operators.write(`/jobs/${jobId}/resettle`);
      expect(settled.body.data).toMatchObject({
        decision: 'released',
        status: 'failed',
        errorCode: 'JOB_LOST',
        billing: 'released',
        findings: [{ verdict: 'not_sent' }],
      });
      expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'release']);
    });
  });
});

describe('an outcome that becomes known after the release', () => {
  const gateway = useGateway({
    env: { IMAGE_DEADLINE_MS: '1000', OUTCOME_WAIT_MS: '1000', FIRST_CHECK_MAX_MS: '300' },
  });
  const operators = operatorsOf(gateway);

  async function released(jobId: string): Promise<void> {
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      error: { code: 'OUTCOME_UNKNOWN' },
      billing: { state: 'released', charged: 0 },
    });
  }
  it('is listed with the time of its notification, and is not charged', async () => {
    const jobId = await operators.start('[[reset-after-accept]] [[late-webhook:3s]] a late swan');
    await released(jobId);
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
    expect(counts.verifying).toBe(0);
    expect(counts.released).toBeGreaterThanOrEqual(1);
    expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'release']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it('is found when an operator checks it at the provider, and is not charged', async () => {
    const jobId = await operators.start('[[slow:5s]] [[ignore-cancel]] [[no-webhook]] a slow swan');
    await released(jobId);
    await operators.untilSeenDone(jobId);
    expect(await operators.entriesOf(jobId)).toEqual(['reserve', 'release']);
  });
});
