/**
 * Processes are stopped with SIGKILL at the worst moments. Another process finishes each accepted
 * job, and charges it once.
 */
import { once } from 'node:events';
import { Client } from 'pg';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { useOwnGateway } from '../harness/gateway.ts';
import { startWorkers } from '../harness/running-gateway.ts';

// Its workers are killed.
const gateway = useOwnGateway({ worker: false });
afterEach(() => gateway.endSpawned());

const path = '/api/v1/studio/image/generate';

/** Runs workers in the process of the test, until its end. */
async function runWorkers(): Promise<void> {
  onTestFinished(await startWorkers(gateway.config, gateway.api.services));
}

/** Starts a job and waits until its provider has accepted it. */
async function startAccepted(prompt: string): Promise<string> {
  const jobId = await gateway.startImage({ prompt });
  await gateway.untilAccepted(jobId);
  return jobId;
}

/** Returns a function that sends a request with an Idempotency-Key to an API. */
const makeKeyedRequest =
  (prompt: string, key = gateway.caller.key) =>
  (base: string) =>
    gateway.call(path, {
      base,
      key,
      body: { prompt },
      headers: { 'idempotency-key': prompt.replaceAll(' ', '-') },
    });

async function expectCharged(jobId: string) {
  const done = await gateway.untilDone(jobId);
  expect(done.body.data).toMatchObject({ status: 'completed', billing: { charged: 3.9 } });
  expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
  expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  return done.body.data.result;
}

describe('a worker', () => {
  it('that receives SIGTERM exits with 0, and another worker completes the running job', async () => {
    const { child } = await gateway.spawn('worker');
    const jobId = await startAccepted('[[slow:1s]] a moving crane');
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    await runWorkers();
    await expectCharged(jobId);
  });

  it('killed between the provider’s success and the charge leaves a job that another worker charges once', async () => {
    const first = await gateway.spawn('worker');
    const jobId = await startAccepted('[[slow:900s]] a lighthouse in the storm');
    // A charge waits for this lock, so the worker can be killed before it.
    const holder = new Client({ connectionString: gateway.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM account WHERE organization_id = $1 FOR UPDATE', [
      gateway.caller.organizationId,
    ]);
    await gateway.sandbox.clearFaults();
    await expect
      .poll(() =>
        gateway.database.query(
          `SELECT 1 FROM pg_stat_activity
           WHERE datname = current_database() AND query LIKE '%ledger_apply%' AND wait_event_type = 'Lock'`,
        ),
      )
      .toHaveLength(1);
    first.child.kill('SIGKILL');
    await holder.query('COMMIT');
    await holder.end();

    await runWorkers();
    const [image] = (await expectCharged(jobId)).images;
    expect((await fetch(image?.url ?? '')).status).toBe(200);
  });
});

describe('an API process that is killed', () => {
  it('while a caller waits leaves a job that finishes and is found by its Idempotency-Key', async () => {
    await runWorkers();
    const { child, port } = await gateway.spawn('api', { API_PORT: '0' });
    const ask = makeKeyedRequest('[[slow:900s]] a lighthouse at noon');
    const request = ask(`http://127.0.0.1:${port}`);
    await expect.poll(() => gateway.sandbox.submits({ match: 'at noon' })).toHaveLength(1);
    child.kill('SIGKILL');
    await expect(request).rejects.toThrow();
    await gateway.sandbox.clearFaults();
    const again = await ask(gateway.url);
    expect(again.status).toBe(200);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await gateway.sandbox.submits({ match: 'at noon' })).toHaveLength(1);
    const job = (await gateway.database.jobs(gateway.caller.organizationId)).at(-1);
    await expectCharged(job?.id ?? '');
  });
});

describe('a job without a running worker', () => {
  /** Starts an API that waits one second for the decision about a job. */
  const startImpatientApi = () => gateway.startSecondApi({ VERDICT_WAIT_MS: '1000' });

  it('gets 503 with its job id in time, and a repeat of its Idempotency-Key returns it once a worker runs', async () => {
    const base = await startImpatientApi();
    const ask = makeKeyedRequest('a lighthouse without a keeper');
    const undecided = await ask(base);
    expect(undecided).toMatchObject({
      status: 503,
      body: { error: 'SERVICE_UNAVAILABLE', jobId: expect.stringMatching(/^job_/) },
    });
    expect(undecided.headers.get('retry-after')).toBe('2');
    // A repeat gets the same response as long as no worker runs.
    const { jobId } = undecided.body;
    expect(await ask(base)).toMatchObject({ status: 503, body: { jobId } });

    await runWorkers();
    await expect.poll(async () => (await ask(base)).status).toBe(200);
    await expectCharged(jobId);
  });

  it('gets 402 when its Idempotency-Key is repeated, although the API missed the event', async () => {
    const { key } = await gateway.newCaller({ credits: 1 });
    const base = await startImpatientApi();
    const ask = makeKeyedRequest('an unpaid keeper', key);
    const undecided = await ask(base);
    expect(undecided.status).toBe(503);
    await runWorkers();
    const rejected = await gateway.getWorkflow(undecided.body.jobId).result();
    expect(rejected).toMatchObject({ status: 'rejected', billing: 'none' });
    expect(await ask(base)).toMatchObject({ status: 402, body: { error: 'INSUFFICIENT_CREDITS' } });
  });
});
