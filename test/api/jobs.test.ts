import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway();

const path = '/api/v1/studio/image/generate';
const start = (prompt: string, extra: object = {}) =>
  gateway.call(path, { body: { prompt, async: true, ...extra } });

describe('an asynchronous job', () => {
  it('returns 202 with its URL, and is charged when the notification arrives', async () => {
    const accepted = await start('a quiet harbour');
    expect(accepted.status).toBe(202);
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
  });

  it('shows its phase and its reserved credits while it runs', async () => {
    const { jobId } = (await start('[[slow:1500ms]] a slow harbour')).body.data;
    await expect
      .poll(async () => (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data)
      .toMatchObject({
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
      });
    await gateway.untilDone(jobId);
  });

  it('is returned by a long poll as soon as it is done', async () => {
    const { jobId } = (await start('[[slow:700ms]] a harbour')).body.data;
    const startedAt = performance.now();
    const answer = await gateway.call(`/api/v1/studio/jobs/${jobId}?wait=30`);
    expect(answer.body.data.status).toBe('completed');
    // The response arrives before the half minute of the long poll is over.
    expect(performance.now() - startedAt).toBeLessThan(29_000);
  });

  it('is returned at once to a request whose Prefer header names no wait', async () => {
    const { jobId } = (await start('[[slow:5s]] a polite harbour')).body.data;
    const answer = await gateway.call(`/api/v1/studio/jobs/${jobId}`, {
      headers: { prefer: 'return=representation' },
    });
    expect(answer.body.data.done).toBe(false);
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
  });

  it('streams its states as events until it is done', async () => {
    const { jobId } = (await start('[[slow:2s]] an event harbour')).body.data;
    const answer = await fetch(`${gateway.url}/api/v1/studio/jobs/${jobId}/events`, {
      headers: { authorization: `Bearer ${gateway.caller.key}` },
    });
    expect(answer.headers.get('content-type')).toContain('text/event-stream');
    const text = await answer.text();
    const states = [...text.matchAll(/^data: (.*)$/gm)].map(
      ([, json]) => (JSON.parse(json ?? '') as { status: string }).status,
    );
    expect(states.at(-1)).toBe('completed');
    expect(states.length).toBeGreaterThan(1);
  });

  it('returns 202 after the synchronous wait, and completes later', async () => {
    const answer = await gateway.call(path, {
      body: { prompt: '[[slow:2s]] a late harbour' },
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
    await expect.poll(() => gateway.sandbox.submits({ match: 'nobody waits for' })).toHaveLength(1);
    abort.abort();
    await expect(request).rejects.toThrow();
    const [job] = await gateway.database.query<{ id: string }>(
      `SELECT id FROM job WHERE request->>'prompt' LIKE '%nobody waits for'`,
    );
    const done = await gateway.untilDone(job?.id ?? '');
    expect(done.body.data.status).toBe('completed');
  });
});

describe('the list of jobs', () => {
  it('is newest first, with a cursor and filters', async () => {
    const other = await gateway.newCaller({ credits: 100 });
    const ids: string[] = [];
    for (const prompt of ['first picture', 'second picture', 'third picture']) {
      const made = await gateway.call(path, { key: other.key, body: { prompt, async: true } });
      ids.unshift(made.body.data.jobId);
    }
    await Promise.all(ids.map((id) => gateway.untilDone(id, other.key)));
    interface Page {
      data: { jobId: string }[];
      hasMore: boolean;
      nextCursor: string | null;
    }
    const list = (query: string) =>
      gateway.call<Page>(`/api/v1/studio/jobs?${query}`, { key: other.key });
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

describe('canceling a job', () => {
  const cancel = (jobId: string) =>
    gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });

  it('stops the provider and releases the credits', async () => {
    const { jobId } = (await start('[[slow:60s]] a harbour not wanted')).body.data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const answer = await cancel(jobId);
    expect([200, 202]).toContain(answer.status);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      status: 'canceled',
      error: { code: 'CANCELED' },
      billing: { state: 'released', charged: 0 },
    });
    // The job is settled a moment before its workflow closes.
    await expect
      .poll(async () => {
        const workflow = await gateway.api.client.workflow.getHandle(jobId).describe();
        return workflow.status.name;
      })
      .toBe('CANCELLED');
  });

  it('delivers and charges the job when the provider finishes it anyway', async () => {
    const { jobId } = (await start('[[slow:1500ms]] [[ignore-cancel]] a stubborn harbour')).body
      .data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    await cancel(jobId);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { state: 'charged' } });
  });

  it('is rejected when the job is already done', async () => {
    const { jobId } = (await start('a finished harbour')).body.data;
    await gateway.untilDone(jobId);
    const answer = await cancel(jobId);
    expect(answer.status).toBe(409);
    expect(answer.body.error).toBe('JOB_ALREADY_DONE');
  });
});
