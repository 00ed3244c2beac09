/** A quick call's end is heard where it was submitted, in whichever process its webhook comes in. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

/** How long a submit listens for the end of its call. */
const submitLingerMs = 5000;
/** A look by the workflow itself comes only after this: whoever is faster has heard the webhook. */
const checkIntervalMs = 12_000;

describe.each(['queued', 'auto'] as const)('a quick call, dispatched %s,', (dispatch) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startGateway({
      env: {
        CALL_DISPATCH: dispatch,
        SUBMIT_LINGER_MS: String(submitLingerMs),
        CHECK_INTERVAL_MS: String(checkIntervalMs),
      },
    });
  });
  afterEach(() => gateway.expectSettled());
  afterAll(() => gateway.close());

  async function eventsOf(jobId: string): Promise<string[]> {
    const handle = gateway.api.client.workflow.getHandle(jobId);
    // The job is done a moment before its workflow.
    await handle.result();
    const history = await handle.fetchHistory();
    return (history.events ?? []).flatMap((event) =>
      Object.entries(event)
        .filter(([name, value]) => name.endsWith('EventAttributes') && value)
        .map(([name]) => name.replace('EventAttributes', '')),
    );
  }
  const start = async (prompt: string, url = gateway.url) => {
    const answer = await fetch(`${url}/api/v1/studio/image/generate`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.caller.key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ prompt, async: true }),
    });
    return ((await answer.json()) as { data: { jobId: string } }).data.jobId;
  };
  const statesOf = async (jobId: string) =>
    gateway.database.query<{ state: string }>('SELECT state FROM notification WHERE job_id = $1', [
      jobId,
    ]);

  it('needs no signal and no timer', async () => {
    const jobId = await start('a swift');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    const events = await eventsOf(jobId);
    expect(events).not.toContain('workflowExecutionSignaled');
    expect(events).not.toContain('timerStarted');
    expect(events.filter((event) => event === 'workflowTaskCompleted')).toHaveLength(
      dispatch === 'auto' ? 1 : 2,
    );
    expect(await statesOf(jobId)).toEqual([{ state: 'delivered' }]);
  });

  it('that takes longer is waited for by the workflow, which its webhook wakes', async () => {
    const startedAt = performance.now();
    const jobId = await start('[[slow:8s]] a tortoise');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(performance.now() - startedAt).toBeLessThan(checkIntervalMs);
    expect(await eventsOf(jobId)).toContain('workflowExecutionSignaled');
  });

  it('whose result cannot be read at first is looked at again', async () => {
    const jobId = await start('[[result:503x1]] a shy swift');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it('that fails is released', async () => {
    const jobId = await start('[[fail:500]] an unlucky swift');
    const startedAt = performance.now();
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'failed', billing: { state: 'released' } });
    expect(performance.now() - startedAt).toBeLessThan(submitLingerMs - 100);
  });

  it('asked for later is answered with its ticket, even when it fails at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        gateway.call('/api/v1/studio/image/generate', {
          method: 'POST',
          body: { prompt: `[[submit:422x9]] goose ${index}, too quick`, async: true },
        }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    await Promise.all(answers.map(({ body }) => gateway.untilDone(body.data.jobId)));
  });

  it('hears of a webhook that came in at another API process', async () => {
    const other = await gateway.spawn('api', { API_PORT: '0' });
    // Its webhooks go to the first process, as behind a load balancer.
    const url = `http://127.0.0.1:${other.port}`;
    const tookMs = await Promise.all(
      Array.from({ length: 6 }, async (_, index) => {
        const startedAt = performance.now();
        const jobId = await start(`swift number ${index}`, url);
        const done = await gateway.untilDone(jobId);
        expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
        expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
        return performance.now() - startedAt;
      }),
    );
    // A submit that hears nothing stays for as long as it may listen.
    expect(Math.min(...tookMs)).toBeLessThan(submitLingerMs - 100);
  });
});

describe('a provider with room for one call', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startGateway({ env: { FAL_CONCURRENCY: '1' } });
  });
  afterEach(() => gateway.expectSettled());
  afterAll(() => gateway.close());

  it('is asked at once by one job; the others wait in its queue, and all are served', async () => {
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, index) =>
        gateway.call('/api/v1/studio/image/generate', {
          method: 'POST',
          body: { prompt: `[[slow:600ms]] goose ${index}`, async: true },
        }),
      ),
    );
    const jobIds = answers.map(({ body }) => body.data.jobId ?? '');
    await Promise.all(jobIds.map((jobId) => gateway.untilDone(jobId)));
    const queued = await Promise.all(
      jobIds.map(async (jobId) => {
        const handle = gateway.api.client.workflow.getHandle(jobId);
        await handle.result();
        const { events } = await handle.fetchHistory();
        return (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes).length;
      }),
    );
    expect(queued.filter((count) => count === 0).length).toBeGreaterThanOrEqual(1);
    expect(queued.filter((count) => count > 0).length).toBeGreaterThanOrEqual(2);
    for (const jobId of jobIds) {
      expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    }
  });
});
