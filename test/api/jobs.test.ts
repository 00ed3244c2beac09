import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });

const path = '/api/v1/studio/image/generate';
const start = async (prompt: string) => {
  const accepted = await gateway.call(path, { body: { prompt, async: true } });
  expect(accepted.status).toBe(202);
  return accepted;
};
const untilAccepted = (query: { jobId?: string; match?: string }) =>
  untilHolds(async () => expect(await gateway.sandbox.submits(query)).toHaveLength(1));
const cancel = (jobId: string) =>
  gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });

// The tests mostly wait, so they wait together.
describe.concurrent('an asynchronous job', () => {
  it('returns 202 with its URL, and is charged when the notification arrives', async () => {
    const accepted = await start('a quiet harbour');
    const { jobId, statusUrl } = accepted.body.data;
    expect(accepted.headers.get('location')).toBe(statusUrl);
    expect(accepted.headers.get('retry-after')).toBe('2');
    expect(accepted.body).toEqual({
      success: true,
      data: {
        jobId: expect.stringMatching(/^job_[0-9a-f]{32}$/),
        status: expect.stringMatching(/^(queued|in_progress)$/),
        statusUrl: `${gateway.url}/api/v1/studio/jobs/${jobId}`,
        cancelUrl: `${gateway.url}/api/v1/studio/jobs/${jobId}/cancel`,
        createdAt: expect.any(String),
        deadlineAt: expect.any(String),
      },
      credits: { used: 0, cost: 3.9, remaining: expect.any(Number) },
    });

    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      jobId,
      type: 'imageGenerate',
      model: 'nano-banana',
      status: 'completed',
      done: true,
      phase: 'done',
      error: null,
      billing: { state: 'charged', reserved: 3.9, charged: 3.9 },
      result: { model: 'nano-banana', images: [{ contentType: 'image/png' }] },
    });
    expect(done.body.credits).toMatchObject({ used: 3.9, cost: 3.9 });
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const late = await cancel(jobId);
    expect([late.status, late.body.error]).toEqual([409, 'JOB_ALREADY_DONE']);
  });

  it('shows its phase and its reserved credits, streams its states, and ends a long poll', async () => {
    const { jobId } = (await start('[[slow:1500ms]] a slow harbour')).body.data;
    const events = fetch(`${gateway.url}/api/v1/studio/jobs/${jobId}/events`, {
      headers: { authorization: `Bearer ${gateway.caller.key}` },
    });
    // A Prefer header that names no wait does not delay the response.
    const look = () =>
      gateway.call(`/api/v1/studio/jobs/${jobId}`, {
        headers: { prefer: 'return=representation' },
      });
    await untilHolds(async () =>
      expect((await look()).body.data).toMatchObject({
        status: 'in_progress',
        done: false,
        phase: 'generating',
        progress: {
          queuePosition: null,
          share: expect.any(Number),
          etaSeconds: expect.any(Number),
        },
        result: null,
        billing: { state: 'reserved', charged: 0 },
      }),
    );
    const startedAt = performance.now();
    const polled = await gateway.call(`/api/v1/studio/jobs/${jobId}?wait=30`);
    expect(polled.body.data.status).toBe('completed');
    // The response arrives before the half minute of the long poll is over.
    expect(performance.now() - startedAt).toBeLessThan(29_000);

    const streamed = await events;
    expect(streamed.headers.get('content-type')).toContain('text/event-stream');
    const states = [...(await streamed.text()).matchAll(/^data: (.*)$/gm)].map(
      ([, json]) => (JSON.parse(json ?? '') as { status: string }).status,
    );
    expect(states.at(-1)).toBe('completed');
    expect(states.length).toBeGreaterThan(1);
  });

  it('returns 202 after the synchronous wait, and completes later', async () => {
    const answer = await gateway.call(path, {
      body: { prompt: '[[slow:1s]] a late harbour' },
      headers: { prefer: 'wait=0' },
    });
    expect(answer.status).toBe(202);
    const done = await gateway.untilDone(answer.body.data.jobId);
    expect(done.body.data.status).toBe('completed');
  });

  it('continues when the caller disconnects', async () => {
    const abort = new AbortController();
    const request = fetch(`${gateway.url}${path}`, {
      method: 'POST',
      signal: abort.signal,
      headers: {
        authorization: `Bearer ${gateway.caller.key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ prompt: '[[slow:1s]] a harbour nobody waits for' }),
    });
    await untilAccepted({ match: 'nobody waits for' });
    abort.abort();
    await expect(request).rejects.toThrow();
    const [job] = await gateway.database.query<{ id: string }>(
      `SELECT id FROM job WHERE request->>'prompt' LIKE '%nobody waits for'`,
    );
    const done = await gateway.untilDone(job?.id ?? '');
    expect(done.body.data.status).toBe('completed');
  });

  it('that is canceled is stopped at the provider and released', async () => {
    const { jobId } = (await start('[[slow:60s]] a harbour not wanted')).body.data;
    await untilAccepted({ jobId });
    expect([200, 202]).toContain((await cancel(jobId)).status);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      status: 'canceled',
      error: { code: 'CANCELED' },
      billing: { state: 'released', charged: 0 },
    });
    // The job is settled a moment before its workflow closes.
    const { workflow } = gateway.api.client;
    await untilHolds(async () =>
      expect((await workflow.getHandle(jobId).describe()).status.name).toBe('CANCELLED'),
    );
  });
});

describe('the list of jobs', () => {
  it('is newest first, with a cursor and filters', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const ids: string[] = [];
    for (const prompt of ['first picture', 'second picture', 'third picture']) {
      const made = await gateway.call(path, { key, body: { prompt, async: true } });
      ids.unshift(made.body.data.jobId);
    }
    await Promise.all(ids.map((id) => gateway.untilDone(id, key)));
    interface Page {
      data: { jobId: string }[];
      hasMore: boolean;
      nextCursor: string | null;
    }
    const list = (query: string) => gateway.call<Page>(`/api/v1/studio/jobs?${query}`, { key });
    const first = await list('limit=2');
    expect(first.body.data.map((job) => job.jobId)).toEqual(ids.slice(0, 2));
    expect(first.body.hasMore).toBe(true);
    const second = await list(`limit=2&cursor=${first.body.nextCursor}`);
    expect(second.body.data.map((job) => job.jobId)).toEqual(ids.slice(2));
    expect(second.body).toMatchObject({ hasMore: false, nextCursor: null });
    expect((await list('status=completed&type=imageGenerate')).body.data).toHaveLength(3);
    expect((await list('status=failed')).body.data).toHaveLength(0);
    expect((await list('status=in_progress')).body.data).toHaveLength(0);
    expect((await list('limit=101')).status).toBe(400);
    expect((await list('status=done')).status).toBe(400);
  });
});
