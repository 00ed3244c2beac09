/** The explanation of a job for operators: its caller, steps and billing, and the next action. */
import { beforeAll, describe, expect, it } from 'vitest';
import {
  operatorAction,
  useGateway,
  type StudioBody,
  type TestCaller,
} from '../harness/gateway.ts';

/** The fields that the tests compare with more than a constant. */
interface Story {
  why: string;
  next: { message: string }[];
  phase: string;
  steps: object[];
  notifications: { state: string }[];
  webhook: { state: string; deliveries: object[] } | null;
  workflow: { status: string | null };
}
interface Provider {
  provider: string;
  recent: { calls: number };
  trend: { calls: number }[];
}

let caller: TestCaller;
const gateway = useGateway({ settled: 'last' });
beforeAll(async () => {
  caller = await gateway.newCaller({ credits: 100 });
});

const admin = (path: string, body?: object) => gateway.admin<StudioBody<Story>>(path, body);
const readStory = async (jobId: string) => {
  const answer = await admin(`/jobs/${jobId}`);
  expect(answer.status).toBe(200);
  return answer.body.data;
};
const start = (prompt: string, more: object = {}) =>
  gateway.startImage({ prompt, ...more }, caller.key);
const run = async (prompt: string, body?: object) => {
  const jobId = await start(prompt, body);
  await gateway.untilDone(jobId, caller.key);
  return jobId;
};

describe('a job is explained', () => {
  it('when it was delivered', async () => {
    const jobId = await run('[[slow:1200ms]] a lighthouse');
    await expect
      .poll(async () => {
        const { workflow, notifications } = await readStory(jobId);
        return [workflow.status, notifications.map(({ state }) => state !== 'received')];
      })
      .toEqual(['COMPLETED', [true]]);
    const story = await readStory(jobId);
    expect(story).toMatchObject({
      why: expect.stringMatching(
        /^Charged 3\.9 credits to Test: fal delivered 1 file of nano-banana in [\d.]+ (s|min)\.$/,
      ),
      next: [{ operation: null, command: null, message: 'Nothing to do: the job is settled.' }],
      organization: { organizationId: caller.organizationId, name: 'Test', status: 'active' },
      key: { keyId: caller.keyId, name: 'test', userId: caller.userId, revokedAt: null },
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
      steps: ['reserve', 'submit', 'wait', 'store', 'charge'].map((name) => ({
        name,
        state: 'done',
      })),
      calls: [
        {
          index: 0,
          provider: 'fal',
          attempts: 1,
          state: 'accepted',
          providerRequestId: expect.any(String),
        },
      ],
      ledger: [{ kind: 'reserve' }, { kind: 'charge' }],
      // On a busy machine, the timer may find the result before the notification arrives.
      notifications: [{ provider: 'fal', state: expect.stringMatching(/^(delivered|late)$/) }],
    });
    const own = await gateway.call<StudioBody<Story>>(`/api/v1/studio/jobs/${jobId}/timeline`, {
      key: caller.key,
    });
    expect(story.steps).toEqual(own.body.data.steps);
  });

  it('when the provider failed or declined it', async () => {
    expect(await readStory(await run('[[fail:422]] a lighthouse'))).toMatchObject({
      why: expect.stringMatching(
        /^Failed after [\d.]+ (s|min) and released 3\.9 credits: [A-Z_]+, .+ \(fal was called.*\)\.$/,
      ),
      ledger: [{ kind: 'reserve' }, { kind: 'release' }],
    });
    const { why, next } = await readStory(await run('[[policy]] a lighthouse'));
    expect(why).toContain('CONTENT_POLICY');
    expect(next[0]?.message).toContain('would fail again');
  });

  it('while it waits for a paused provider, and when an operator cancels it', async () => {
    await admin('/providers/fal/pause', { reason: 'fal is down' });
    const jobId = await start('a patient lighthouse');
    await expect
      .poll(async () => (await readStory(jobId)).phase, { interval: 50 })
      .toBe('waiting_for_provider');
    expect(await readStory(jobId)).toMatchObject({
      why: expect.stringMatching(
        /^Open for [\d.]+ (s|min), with 3\.9 credits of Test reserved\. Reasons: call 1 is waiting: fal was paused .* by olga: fal is down\.$/,
      ),
      next: ['admin resume fal', null, `admin cancel ${jobId}`].map((command) => ({ command })),
      workflow: { state: 'running' },
    });
    await admin(`/jobs/${jobId}/cancel`, {});
    await admin('/providers/fal/resume', {});
    await gateway.untilDone(jobId, caller.key);
    expect(await readStory(jobId)).toMatchObject({
      why: expect.stringMatching(
        /^Canceled by olga \(ticket 7\), after [\d.]+ (s|min) and released 3\.9 credits: CANCELED, /,
      ),
      actions: [{ action: 'job.cancel_requested', ...operatorAction }],
    });
  });

  it('when its workflow was terminated, with a next action that repairs it', async () => {
    const jobId = await start('[[slow:900s]] a lost lighthouse');
    await gateway.untilAccepted(jobId);
    await gateway.getWorkflow(jobId).terminate('a test');
    await gateway.sandbox.clearFaults();
    await expect
      .poll(async () => (await readStory(jobId)).workflow.status, { interval: 50 })
      .toBe('TERMINATED');
    expect(await readStory(jobId)).toMatchObject({
      why: expect.stringContaining('workflow ended (TERMINATED) without settling the reservation'),
      next: [{ operation: 'resettleJob', command: `admin resettle ${jobId}` }],
    });
    expect((await admin(`/jobs/${jobId}/resettle`, {})).status).toBe(202);
    await gateway.sandbox.clearFaults();
    await gateway.untilDone(jobId, caller.key);
    expect((await readStory(jobId)).why).toMatch(/^Charged 3\.9 credits/);
  });

  it.each([
    ['a lighthouse', /^The result was delivered, and 3\.9 credits were charged\.$/],
    [
      '[[fail:422]] a picture',
      /^The provider rejected the input.*\. Nothing was charged; 3\.9 credits were released\. The same request would fail again\.$/,
    ],
    ['[[slow:900s]] a slow ship', /^fal is working on it\. 3\.9 credits are reserved; only what/],
    [
      '[[hang-submit]] [[slow:600s]] a silent ship',
      /^fal has not confirmed the call\. It is not sent again\. Decided by \d\d:\d\d UTC; nothing is charged unless fal delivers\.$/,
    ],
  ])('to its caller in the words that the operator reads: %s', async (prompt, why) => {
    const jobId = await start(prompt);
    const read = async () => {
      const path = `/api/v1/studio/jobs/${jobId}/timeline`;
      const { body } = await gateway.call<StudioBody<Story & { outcomeUnknown: boolean }>>(path, {
        key: caller.key,
      });
      return body.data;
    };
    await expect.poll(async () => (await read()).why).toMatch(why);
    expect((await read()).outcomeUnknown).toBe(prompt.includes('hang'));
    expect(await readStory(jobId)).toMatchObject({ callerWhy: (await read()).why });
    if (prompt.includes('slow')) await gateway.cancel(jobId, caller.key);
  });

  it('when its receiver rejects the webhook', async () => {
    const webhookUrl = gateway.receiver.at('/gone-away', (response) =>
      response.writeHead(404).end(),
    );
    const jobId = await run('a told lighthouse', { webhookUrl });
    await expect
      .poll(async () => (await readStory(jobId)).webhook?.state, { interval: 100 })
      .toBe('failed');
    const { webhook, ...story } = await readStory(jobId);
    expect(story).toMatchObject({
      why: expect.stringMatching(
        /; its webhook was not delivered \(\d+ attempts; last response: 404\)\.$/,
      ),
      next: [{ operation: 'redeliverJobWebhook', command: `admin redeliver-webhook ${jobId}` }],
    });
    expect(webhook?.deliveries.length).toBeGreaterThan(1);
  });
});

it('providers are listed with their recent results', async () => {
  const jobId = await run('a lighthouse of the last hour');
  const update = `UPDATE job SET created_at = now() - interval '52 minutes' WHERE id = $1`;
  await gateway.database.query(update, [jobId]);
  const { body } = await gateway.admin<StudioBody<Provider[]>>('/providers');
  const fal = body.data.find(({ provider }) => provider === 'fal');
  expect(fal?.recent).toMatchObject({
    medianSeconds: expect.any(Number),
    slowSeconds: expect.any(Number),
  });
  expect(fal?.recent.calls).toBeGreaterThan(3);
  expect(fal?.trend).toHaveLength(12);
  const calls = fal?.trend.map((step) => step.calls) ?? [];
  expect(calls.at(-1)).toBeGreaterThan(0);
  expect(calls[1]).toBeGreaterThan(0);
  // `recent` is about the same hour as the intervals of `trend`.
  expect(fal?.recent.calls).toBe(calls.reduce((sum, step) => sum + step, 0));
  for (const { recent } of body.data.filter((each) => each.recent.calls === 0)) {
    expect(recent).toEqual({ calls: 0, failed: 0, medianSeconds: null, slowSeconds: null });
  }
});
