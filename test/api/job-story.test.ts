/** The explanation of a job for operators: its caller, steps and billing, and the next action. */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

interface Story {
  why: string;
  next: { operation: string | null; command: string | null; message: string }[];
  status: string;
  phase: string;
  steps: { name: string; state: string; attempts: number | null; startedAt: string | null }[];
  calls: { providerRequestId: string | null; attempts: number }[];
  ledger: { kind: string }[];
  notifications: { state: string }[];
  webhook: { state: string; deliveries: object[] } | null;
  workflow: { state: string; status: string | null; url: string };
  actions: { action: string; actor: string }[];
}

interface Provider {
  provider: string;
  recent: { calls: number; failed: number };
  trend: { calls: number }[];
}

let caller: TestCaller;
const gateway = useGateway({ settled: 'last' });
beforeAll(async () => {
  caller = await gateway.newCaller({ credits: 100 });
});

const by = { actor: 'olga', reason: 'ticket 7' };
interface Body<Data> {
  data: Data;
  error: string;
}
const admin = (path: string, body?: object) => gateway.admin<Body<Story>>(path, body);
const storyOf = async (jobId: string) => {
  const answer = await admin(`/jobs/${jobId}`);
  expect(answer.status).toBe(200);
  return answer.body.data;
};
const start = async (prompt: string, more: object = {}) => {
  const body = { prompt, async: true, ...more };
  const accepted = await gateway.call('/api/v1/studio/image/generate', { key: caller.key, body });
  return accepted.body.data.jobId;
};
const ended = async (prompt: string, body?: object) => {
  const jobId = await start(prompt, body);
  await gateway.untilDone(jobId, caller.key);
  return jobId;
};

describe('a job is explained', () => {
  it('when it was delivered', async () => {
    const jobId = await ended('[[slow:1200ms]] a lighthouse');
    await expect
      .poll(async () => (await storyOf(jobId)).workflow.status, { interval: 100 })
      .toBe('COMPLETED');
    const story = await storyOf(jobId);
    expect(story.why).toMatch(
      /^Charged 3\.9 credits to Test: fal delivered 1 file of nano-banana in \d\.\d s\.$/,
    );
    expect(story.next).toEqual([
      { operation: null, command: null, message: 'Nothing to do: the job is settled.' },
    ]);
    expect(story).toMatchObject({
      organization: { organizationId: caller.organizationId, name: 'Test', status: 'active' },
      key: { keyId: caller.keyId, name: 'test', userId: caller.memberId, revokedAt: null },
      request: { prompt: '[[slow:1200ms]] a lighthouse' },
      phase: 'done',
      billing: { state: 'charged', charged: 3.9 },
      workflow: {
        workflowId: jobId,
        state: 'closed',
        url: `http://127.0.0.1:8233/namespaces/default/workflows/${jobId}`,
      },
      webhook: null,
      actions: [],
    });
    expect(story.steps.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'reserve done',
      'submit done',
      'wait done',
      'store done',
      'charge done',
    ]);
    const own = await gateway.call<{ data: { steps: object[] } }>(
      `/api/v1/studio/jobs/${jobId}/timeline`,
      { key: caller.key },
    );
    expect(story.steps).toEqual(own.body.data.steps);
    expect(story.calls).toMatchObject([
      { index: 0, provider: 'fal', attempts: 1, state: 'accepted' },
    ]);
    expect(story.calls[0]?.providerRequestId).toEqual(expect.any(String));
    expect(story.ledger.map(({ kind }) => kind)).toEqual(['reserve', 'charge']);
    expect(story.notifications).toMatchObject([{ provider: 'fal', state: 'delivered' }]);
  });

  it('when the provider failed or declined it', async () => {
    const failed = await storyOf(await ended('[[fail:422]] a lighthouse'));
    expect(failed.why).toMatch(
      /^Failed after \d\.\d s and released 3\.9 credits: [A-Z_]+, .+ \(fal was called.*\)\.$/,
    );
    expect(failed.ledger.map(({ kind }) => kind)).toEqual(['reserve', 'release']);
    const declined = await storyOf(await ended('[[policy]] a lighthouse'));
    expect(declined.why).toContain('CONTENT_POLICY');
    expect(declined.next[0]?.message).toContain('would fail again');
  });

  it('while it waits for a paused provider, and when an operator cancels it', async () => {
    await admin('/providers/fal/pause', { reason: 'fal is down' });
    const jobId = await start('a patient lighthouse');
    await expect
      .poll(async () => (await storyOf(jobId)).phase, { interval: 50 })
      .toBe('waiting_for_provider');
    const open = await storyOf(jobId);
    expect(open.why).toMatch(
      /^Open for \d\.\d s, with 3\.9 credits of Test reserved\. Reasons: call 1 is waiting: fal was paused .* by olga: fal is down\.$/,
    );
    expect(open.next.map(({ command }) => command)).toEqual([
      'admin resume fal',
      null,
      `admin cancel ${jobId}`,
    ]);
    expect(open.workflow.state).toBe('running');
    await admin(`/jobs/${jobId}/cancel`, {});
    await admin('/providers/fal/resume', {});
    await gateway.untilDone(jobId, caller.key);
    const canceled = await storyOf(jobId);
    expect(canceled.why).toMatch(
      /^Canceled by olga \(ticket 7\), after \d\.\d s and released 3\.9 credits: CANCELED, /,
    );
    expect(canceled.actions).toMatchObject([{ action: 'job.cancel_requested', ...by }]);
  });

  it('when its workflow was terminated, with a next action that repairs it', async () => {
    const jobId = await start('[[slow:2s]] a lost lighthouse');
    await expect.poll(() => gateway.sandbox.submits({ jobId }), { interval: 50 }).toHaveLength(1);
    await gateway.api.client.workflow.getHandle(jobId).terminate('a test');
    await expect
      .poll(async () => (await storyOf(jobId)).workflow.status, { interval: 50 })
      .toBe('TERMINATED');
    const lost = await storyOf(jobId);
    expect(lost.why).toContain('workflow ended (TERMINATED) without settling the reservation');
    expect(lost.next).toMatchObject([
      { operation: 'resettleJob', command: `admin resettle ${jobId}` },
    ]);
    expect((await admin(`/jobs/${jobId}/resettle`, {})).status).toBe(202);
    await gateway.untilDone(jobId, caller.key);
    expect((await storyOf(jobId)).why).toMatch(/^Charged 3\.9 credits/);
  });

  it('when its receiver rejects the webhook', async () => {
    const webhookUrl = gateway.receiver.at('/gone-away', (response) =>
      response.writeHead(404).end(),
    );
    const jobId = await ended('a told lighthouse', { webhookUrl });
    await expect
      .poll(async () => (await storyOf(jobId)).webhook?.state, { interval: 100, timeout: 10_000 })
      .toBe('failed');
    const story = await storyOf(jobId);
    expect(story.why).toMatch(
      /; its webhook was not delivered \(\d attempts; last response: 404\)\.$/,
    );
    expect(story.next).toMatchObject([
      { operation: 'redeliverJobWebhook', command: `admin redeliver-webhook ${jobId}` },
    ]);
    expect(story.webhook?.deliveries.length).toBeGreaterThan(1);
  });

  it('unless it does not exist', async () => {
    const missing = await admin(`/jobs/job_${'0'.repeat(32)}`);
    expect(`${missing.status} ${missing.body.error}`).toBe('404 JOB_NOT_FOUND');
  });
});

describe('providers', () => {
  it('are listed with their recent results', async () => {
    const { body } = await gateway.admin<Body<Provider[]>>('/providers');
    const fal = body.data.find(({ provider }) => provider === 'fal');
    expect(fal?.recent).toMatchObject({
      medianSeconds: expect.any(Number),
      slowSeconds: expect.any(Number),
    });
    expect(fal?.recent.calls).toBeGreaterThan(3);
    expect(fal?.trend).toHaveLength(12);
    const calls = fal?.trend.map((step) => step.calls) ?? [];
    expect(calls.at(-1)).toBeGreaterThan(0);
    expect(calls.reduce((sum, each) => sum + each, 0)).toBe(fal?.recent.calls);
    for (const { recent } of body.data.filter((each) => each.recent.calls === 0)) {
      expect(recent).toEqual({ calls: 0, failed: 0, medianSeconds: null, slowSeconds: null });
    }
  });
});

describe('organizations', () => {
  it('are found by a part of their name', async () => {
    await admin('/organizations', { name: 'Größe 100% & Co' });
    const names = async (part: string) => {
      const path = `/organizations?name=${encodeURIComponent(part)}`;
      const { body } = await gateway.admin<Body<{ name: string }[]>>(path);
      return body.data.map(({ name }) => name);
    };
    expect(await names('GRÖSSE')).toEqual([]);
    expect(await names('größe 100%')).toEqual(['Größe 100% & Co']);
    expect(await names('_')).toEqual([]);
  });
});
