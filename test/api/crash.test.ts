/**
 * Processes are stopped with SIGKILL at the worst moments. Another process finishes each accepted
 * job, and charges it once.
 */
import { once } from 'node:events';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  // Its workers are killed.
  gateway = await startGateway({ worker: false, env: { RESERVATION_TTL_MS: '2000' } });
});
afterEach(() => gateway.expectSettled());
afterAll(() => gateway.close());

const path = '/api/v1/studio/image/generate';

async function entriesOf(jobId: string): Promise<string[]> {
  const rows = await gateway.database.query<{ kind: string }>(
    'SELECT kind FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence',
    [jobId],
  );
  return rows.map((row) => row.kind);
}

describe('a worker that receives SIGTERM', () => {
  it('exits with 0, and another worker completes the running job', async () => {
    const { child } = await gateway.spawn('worker');
    const accepted = await gateway.call(path, {
      body: { prompt: '[[slow:1s]] a moving crane', async: true },
    });
    const { jobId } = accepted.body.data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);

    const second = await gateway.spawn('worker');
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    second.child.kill('SIGKILL');
  });
});

describe('a worker that is killed', () => {
  it('between the provider’s success and the charge leaves a job that another worker charges once', async () => {
    const first = await gateway.spawn('worker');
    const accepted = await gateway.call(path, {
      body: { prompt: '[[slow:800ms]] a lighthouse in the storm', async: true },
    });
    const { jobId } = accepted.body.data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);

    // A charge waits for this lock, so the worker can be killed before it.
    const holder = new Client({ connectionString: gateway.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM account WHERE organization_id = $1 FOR UPDATE', [
      gateway.caller.organizationId,
    ]);
    await expect
      .poll(async () => {
        const waiting = await gateway.database.query(
          `SELECT 1 FROM pg_stat_activity
           WHERE datname = current_database() AND query LIKE '%ledger_apply%' AND wait_event_type = 'Lock'`,
        );
        return waiting.length;
      })
      .toBe(1);
    first.child.kill('SIGKILL');
    await holder.query('COMMIT');
    await holder.end();

    await gateway.spawn('worker');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await entriesOf(jobId)).toEqual(['reserve', 'charge']);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
    const [image] = done.body.data.result.images;
    expect((await fetch(image?.url ?? '')).status).toBe(200);
  });

  it('while the provider works leaves a job that another worker completes from the notification and charges once', async () => {
    const worker = await gateway.spawn('worker');
    const accepted = await gateway.call(path, {
      body: { prompt: '[[slow:1500ms]] a lighthouse at night', async: true },
    });
    const { jobId } = accepted.body.data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    worker.child.kill('SIGKILL');
    const done = await gateway.untilDone(jobId);
    expect(done.body.data.status).toBe('completed');
    expect(await entriesOf(jobId)).toEqual(['reserve', 'charge']);
  });
});

describe('an API process that is killed', () => {
  it('while a caller waits leaves a job that finishes and is found by its Idempotency-Key', async () => {
    const { child, port } = await gateway.spawn('api', { API_PORT: '0' });
    const request = {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.caller.key}`,
        'content-type': 'application/json',
        'idempotency-key': 'crash-1',
      },
      body: JSON.stringify({ prompt: '[[slow:1200ms]] a lighthouse at noon' }),
    };
    const lost = fetch(`http://127.0.0.1:${port}${path}`, request);
    await expect.poll(() => gateway.sandbox.submits({ match: 'at noon' })).toHaveLength(1);
    child.kill('SIGKILL');
    await expect(lost).rejects.toThrow();
    const again = await fetch(`${gateway.url}${path}`, request);
    expect(again.status).toBe(200);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const submits = await gateway.sandbox.submits({ match: 'at noon' });
    expect(submits).toHaveLength(1);
    const jobId = /job_[0-9a-f]{32}/.exec(submits[0]?.webhookUrl ?? '')?.[0] ?? '';
    expect(await entriesOf(jobId)).toEqual(['reserve', 'charge']);
  });
});

describe('a terminated workflow', () => {
  it('leaves its reservation to the sweeper, which releases it and fails the job', async () => {
    const accepted = await gateway.call(path, {
      body: { prompt: '[[slow:60s]] a lighthouse forgotten', async: true },
    });
    const { jobId } = accepted.body.data;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
    await gateway.api.client.workflow.getHandle(jobId).terminate('test');
    await gateway.spawn('worker', { SWEEP_INTERVAL_MS: '300' });
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      status: 'failed',
      error: { code: 'JOB_LOST' },
      billing: { state: 'released', charged: 0 },
    });
    expect(await entriesOf(jobId)).toEqual(['reserve', 'release']);
  });
});

describe('a job whose workflow is running', () => {
  it('is left alone by the sweeper, however long it takes', async () => {
    await gateway.spawn('worker', { SWEEP_INTERVAL_MS: '200' });
    const accepted = await gateway.call(path, {
      body: { prompt: '[[slow:5s]] a slow lighthouse', async: true },
    });
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data.status).toBe('completed');
  });
});

describe('a job without a running worker', () => {
  let idle: TestGateway;
  let worker: SpawnedProcess;
  beforeAll(async () => {
    idle = await startGateway({ worker: false, env: { VERDICT_WAIT_MS: '1000' } });
  });
  afterAll(() => idle.close());

  it('gets 503 with its job id in time, and a repeat of its Idempotency-Key returns it once a worker runs', async () => {
    const ask = () =>
      idle.call(path, {
        body: { prompt: 'a lighthouse without a keeper' },
        headers: { 'idempotency-key': 'keeper-1' },
      });
    const undecided = await ask();
    expect([undecided.status, undecided.body.error]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    expect(undecided.headers.get('retry-after')).toBe('2');
    const { jobId } = undecided.body;
    expect(jobId).toMatch(/^job_/);
    // A repeat gets the same response as long as no worker runs.
    const repeated = await ask();
    expect([repeated.status, repeated.body.jobId]).toEqual([503, jobId]);

    worker = await idle.spawn('worker');
    await expect.poll(async () => (await ask()).status).toBe(200);
    const job = await idle.untilDone(jobId);
    expect(job.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
    expect(await idle.sandbox.submits({ match: 'without a keeper' })).toHaveLength(1);
    await idle.expectSettled();
  });

  it('gets 402 when its Idempotency-Key is repeated, although the API missed the event', async () => {
    const { key } = await idle.newCaller({ credits: 1 });
    const headers = { 'idempotency-key': 'keeper-2' };
    const ask = () => idle.call(path, { key, headers, body: { prompt: 'an unpaid keeper' } });
    worker.child.kill('SIGSTOP');
    const undecided = await ask();
    expect([undecided.status, undecided.body.jobId]).toEqual([503, expect.stringMatching(/^job_/)]);
    worker.child.kill('SIGCONT');
    const { client } = idle.api;
    const refused = await client.workflow.getHandle(undecided.body.jobId).result();
    expect(refused).toMatchObject({ status: 'refused', billing: 'none' });
    const repeated = await ask();
    expect([repeated.status, repeated.body.error]).toEqual([402, 'INSUFFICIENT_CREDITS']);
  });
});

describe('an API process whose LISTEN connection is cut repeatedly', () => {
  it('finds the state of a job by reading its row', async () => {
    await gateway.spawn('worker');
    const cutting = setInterval(() => {
      void gateway.database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'LISTEN%'`,
      );
    }, 20);
    const startedAt = performance.now();
    // The end of a job is found by another look at its row.
    const prompt = '[[slow:6s]] a deaf keeper';
    const accepted = await gateway.call(path, { body: { prompt, async: true } });
    clearInterval(cutting);
    expect(accepted.status).toBe(202);
    expect(performance.now() - startedAt).toBeLessThan(4000);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data.status).toBe('completed');
  });
});
