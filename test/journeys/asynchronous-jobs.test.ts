/** Asynchronous jobs: polling, long polls, event streams, cancels and lost callers. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });

const path = '/api/v1/studio/image/generate';
// The tests mostly wait, so they wait together.
describe.concurrent('an asynchronous job', () => {
  it('returns 202 with its URL, and is charged when the notification arrives', async () => {
    const body = { prompt: 'a quiet harbour', async: true };
    const accepted = await gateway.call(path, { body });
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
    const cancelPath = `/api/v1/studio/jobs/${jobId}/cancel`;
    expect(await gateway.call(cancelPath, { method: 'POST' })).toMatchObject({
      status: 409,
      body: { error: 'JOB_ALREADY_DONE' },
    });
  });

  it('shows its phase and its reserved credits, streams its states, and ends a long poll', async () => {
    const jobId = await gateway.startImage({ prompt: '[[slow:10s]] a slow harbour' });
    const events = fetch(`${gateway.url}/api/v1/studio/jobs/${jobId}/events`, {
      headers: { authorization: `Bearer ${gateway.caller.key}` },
    });
    // A Prefer header that names no wait does not delay the response.
    const headers = { prefer: 'return=representation' };
    await untilHolds(async () =>
      expect(
        (await gateway.call(`/api/v1/studio/jobs/${jobId}`, { headers })).body.data,
      ).toMatchObject({
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

  it('continues when the caller disconnects', async () => {
    const { caller, database, sandbox, url } = gateway;
    const abort = new AbortController();
    const request = fetch(`${url}${path}`, {
      method: 'POST',
      signal: abort.signal,
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: '[[slow:10s]] a harbour nobody waits for' }),
    });
    await untilHolds(async () =>
      expect(await sandbox.submits({ match: 'nobody waits for' })).toHaveLength(1),
    );
    abort.abort();
    await expect(request).rejects.toThrow();
    const job = (await database.jobs(caller.organizationId)).find(({ request: { prompt } }) =>
      String(prompt).includes('nobody waits for'),
    );
    expect((await gateway.untilDone(job?.id ?? '')).body.data.status).toBe('completed');
  });

  it('that is canceled is stopped at the provider and released', async () => {
    const jobId = await gateway.startImage({ prompt: '[[slow:60s]] a harbour not wanted' });
    await gateway.untilAccepted(jobId);
    await gateway.cancel(jobId);
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      status: 'canceled',
      error: { code: 'CANCELED' },
      billing: { state: 'released', charged: 0 },
    });
    // The job is settled a moment before its workflow closes.
    await untilHolds(async () =>
      expect((await gateway.getWorkflow(jobId).describe()).status.name).toBe('CANCELLED'),
    );
  });
});
