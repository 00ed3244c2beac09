/** Metrics, probes and log lines of real processes: an API without workers, and a worker. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';
import {
  readGroups,
  readDashboard,
  readExpressions,
  readSelectors,
} from '../deploy/expressions.ts';
import { readPage, sum, type Page } from './page.ts';

const generate = '/api/v1/studio/image/generate';
const requestId = 'request-of-the-metrics-test';
let gateway: TestGateway;
let api: SpawnedProcess;
let worker: SpawnedProcess;
const scrape = ({ metricsPort }: SpawnedProcess): Promise<Page> =>
  readPage(`http://127.0.0.1:${metricsPort}/metrics`);
const untilPositive = (of: SpawnedProcess, name: string, labels: Record<string, string> = {}) =>
  expect.poll(async () => sum(await scrape(of), name, labels)).toBeGreaterThan(0);
const probe = async (port: number, path: string) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: answer.status, body: (await answer.json()) as { checks: object } };
};
const call = async (path: string, body: object): Promise<{ status: number; body: string }> => {
  const answer = await fetch(`http://127.0.0.1:${api.port}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.caller.key}`,
      'content-type': 'application/json',
      'x-request-id': requestId,
    },
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.text() };
};

beforeAll(async () => {
  // Its processes are measured.
  gateway = await startGateway({ worker: false });
  // Ten organizations spend less than that of the test.
  const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] };
  for (let index = 0; index < 10; index += 1) {
    const { key } = await gateway.newCaller();
    await gateway.send('/api/v1/chat', { key, body });
  }
  const ports = { METRICS_PORT: '0', API_PORT: '0' };
  const intervals = { AUDIT_INTERVAL_MS: '500', SWEEP_INTERVAL_MS: '300' };
  const env = { ...ports, ...intervals, LOG_LEVEL: 'info' };
  worker = await gateway.spawn('worker', env);
  api = await gateway.spawn('api', env);
});
afterAll(async () => {
  await gateway.expectSettled();
  await gateway.close();
});

describe('probes', () => {
  it('report ready once the server has registered the pollers', async () => {
    await expect.poll(() => probe(worker.metricsPort, '/readyz')).toMatchObject({ status: 200 });
    const workerChecks = { postgres: true, temporal: true, workers: true, pollers: true };
    const apiChecks = { postgres: true, temporal: true, serving: true, pollers: true };
    for (const [port, expected] of [
      [worker.metricsPort, workerChecks],
      [api.metricsPort, apiChecks],
      [api.port, apiChecks],
    ] as const) {
      await expect
        .poll(() => probe(port, '/readyz'))
        .toMatchObject({ status: 200, body: { checks: expected } });
      expect((await probe(port, '/healthz')).status).toBe(200);
    }
    expect((await probe(worker.metricsPort, '/nothing')).status).toBe(404);
  });
});

describe('an API without workers on its queues', () => {
  it('is ready for chat, and reports the missing workers', async () => {
    const env = { API_PORT: '0', TASK_QUEUE_PREFIX: 'nobody-polls-' };
    const alone = await gateway.spawn('api', env);
    const checks = { postgres: true, temporal: true, pollers: false };
    expect(await probe(alone.port, '/readyz')).toMatchObject({
      status: 200,
      body: { status: 'degraded', checks },
    });
    expect((await probe(alone.port, '/healthz')).status).toBe(200);
    expect(alone.metricsPort).toBe(0);
  });
});

describe('metrics', () => {
  it('show the credits of an image and a chat, in whichever process they were counted', async () => {
    const image = await call(generate, { prompt: 'a pier' });
    expect(image.status).toBe(200);
    const wrong = await call(generate, { prompt: 'a pier', model: 'no-such-model' });
    expect(wrong.status).toBe(400);
    const chat = await call('/api/v1/chat', {
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: 'hello' }],
      stream: true,
    });
    expect(chat.body).toContain('[DONE]');
    await untilPositive(api, 'gateway_credits_charged_total', { kind: 'chat' });

    const page = await scrape(api);
    const route = generate;
    const charged = { kind: 'chat', provider: 'openai', model: 'gpt-5-mini' };
    const genAi = {
      gen_ai_operation_name: 'chat',
      gen_ai_provider_name: 'openai',
      gen_ai_request_model: 'gpt-5-mini',
    };
    const chats = { provider: 'openai', verb: 'chat', outcome: 'ok' };
    const counts: [name: string, labels: Record<string, string>, count: number][] = [
      ['gateway_http_requests_total', { route, status: '200' }, 1],
      ['gateway_http_requests_total', { route, status: '400' }, 1],
      ['gateway_http_request_duration_seconds_count', { route }, 2],
      ['gateway_chat_first_token_seconds_count', { provider: 'openai' }, 1],
      ['gateway_provider_requests_total', chats, 1],
      ['gen_ai_client_operation_duration_seconds_count', genAi, 1],
      ['gen_ai_client_token_usage_count', { ...genAi, gen_ai_token_type: 'input' }, 1],
      ['gen_ai_client_token_usage_count', { ...genAi, gen_ai_token_type: 'output' }, 1],
    ];
    for (const [name, labels, count] of counts) expect(sum(page, name, labels), name).toBe(count);
    for (const gen_ai_token_type of ['input', 'output']) {
      const tokens = { ...genAi, gen_ai_token_type };
      expect(sum(page, 'gen_ai_client_token_usage_sum', tokens)).toBeGreaterThan(0);
    }
    expect(sum(page, 'gateway_credits_charged_total', charged)).toBeGreaterThan(0);
    // Without a markup, the cost is the price.
    const chatCredits = sum(page, 'gateway_credits_charged_total', charged);
    expect(sum(page, 'gateway_chat_cost_usd_total')).toBeCloseTo(chatCredits * 0.01);
    expect(sum(page, 'gateway_batch_size_count', { batch: 'access' })).toBeGreaterThan(1);
    expect(sum(page, 'gateway_postgres_pool_wait_seconds_count')).toBeGreaterThan(1);

    const studio = { kind: 'studio' };
    await untilPositive(worker, 'gateway_credits_charged_total', studio);
    const work = await scrape(worker);
    const { credits } = JSON.parse(image.body) as { credits: { cost: number } };
    expect(sum(work, 'gateway_credits_reserved_total', studio)).toBeCloseTo(credits.cost);
    expect(sum(work, 'gateway_credits_charged_total', studio)).toBeCloseTo(credits.cost);
    expect(sum(work, 'gateway_credits_released_total', studio)).toBe(0);
    const pictures = { type: 'imageGenerate' };
    const generated = { gen_ai_operation_name: 'generate_content', gen_ai_provider_name: 'fal' };
    const completed = { ...pictures, status: 'completed', reason: 'none' };
    expect(sum(work, 'gateway_jobs_ended_total', completed)).toBe(1);
    expect(sum(work, 'gen_ai_client_operation_duration_seconds_count', generated)).toBe(1);
    expect(sum(work, 'gateway_job_overhead_seconds_count', pictures)).toBe(1);
    const submits = { provider: 'fal', verb: 'submit' };
    expect(sum(work, 'gateway_provider_requests_total', submits)).toBe(1);
    expect(sum(work, 'gateway_job_overhead_seconds_sum', pictures)).toBeLessThan(
      sum(work, 'gateway_job_duration_seconds_sum', pictures),
    );
  });

  it('show why a provider delivered nothing, and the released credits', async () => {
    const released = { kind: 'studio' };
    const before = sum(await scrape(worker), 'gateway_credits_released_total', released);
    await gateway.sandbox.inject({ match: 'a wreck', faults: 'policy' });
    const rejected = await call(generate, { prompt: 'a wreck' });
    expect(rejected).toMatchObject({ status: 400 });
    // The caller may receive the response before the worker has counted the release.
    await expect
      .poll(async () => sum(await scrape(worker), 'gateway_credits_released_total', released))
      .toBeGreaterThan(before);
    const page = await scrape(worker);
    const ended = { type: 'imageGenerate', status: 'failed', reason: 'CONTENT_POLICY' };
    expect(sum(page, 'gateway_jobs_ended_total', ended)).toBe(1);
    const outcome = { provider: 'fal', outcome: 'content_policy' };
    expect(sum(page, 'gateway_provider_requests_total', outcome)).toBeGreaterThan(0);
  });

  it('show the state of the gateway from the worker alone', async () => {
    const queued = { queue: 'studio', task: 'workflow' };
    await untilPositive(worker, 'gateway_task_queue_pollers', queued);
    const auditedAt = 'gateway_ledger_audit_success_timestamp_seconds';
    await untilPositive(worker, auditedAt);
    const page = await scrape(worker);
    expect(sum(page, 'gateway_reservations_open', { kind: 'studio' })).toBe(0);
    const { organizationId: organization } = gateway.caller;
    await untilPositive(worker, 'gateway_organization_spend_credits', { organization });
    expect(sum(page, 'gateway_task_queue_backlog', queued)).toBe(0);
    expect(sum(page, 'gateway_ledger_audit_rows')).toBe(0);
    const sweptAt = 'gateway_sweeper_success_timestamp_seconds';
    expect(sum(page, sweptAt)).toBeGreaterThan(1e9);
    expect((await scrape(api)).has('gateway_ledger_audit_rows')).toBe(false);
    // Failed passes and audits do not count, and values that cannot be read are left out.
    await gateway.database.query('ALTER TABLE reservation RENAME TO reservation_away');
    const failures = ['gateway_sweeper_actions_total', { action: 'failed' }] as const;
    await untilPositive(worker, ...failures);
    const before = await scrape(worker);
    const countFailures = async () => sum(await scrape(worker), ...failures);
    await expect.poll(countFailures).toBeGreaterThan(sum(before, ...failures));
    for (const gauge of ['gateway_reservations_open', 'gateway_jobs_overdue'])
      await expect.poll(async () => (await scrape(worker)).get(gauge)).toEqual([]);
    const after = await scrape(worker);
    await gateway.database.query('ALTER TABLE reservation_away RENAME TO reservation');
    for (const name of [sweptAt, auditedAt]) expect(sum(after, name)).toBe(sum(before, name));
  });

  it('include those of the Temporal SDK on the same page', async () => {
    const names = [...(await scrape(worker)).keys()].filter((name) => name.startsWith('temporal_'));
    expect(names).toContain('temporal_worker_task_slots_available');
  });
});

describe('the dashboard and the alert rules', () => {
  it('name only exported metrics and labels', async () => {
    expect((await call(generate, { prompt: 'a mole' })).status).toBe(200);
    // A provider that answers with the result has its calls on its queue.
    const speech = { text: 'a mole', title: 'Mole' };
    expect((await call('/api/v1/studio/voiceover/generate', speech)).status).toBe(200);
    const page: Page = new Map([...(await scrape(api)), ...(await scrape(worker))]);
    const expressions = await readExpressions();
    const selectors = expressions.flatMap(readSelectors);
    expect(selectors.length).toBeGreaterThan(60);
    // The SDK exports it after the first failed task (test/runbooks/servers.slow.test.ts).
    const onFailure = 'temporal_workflow_task_execution_failed_total';
    const names = new Set(selectors.map(({ name }) => name).filter((name) => name !== onFailure));
    expect([...names].filter((name) => !page.has(name))).toEqual([]);
    // A metric without samples has no labels; Prometheus adds its own labels.
    const prometheusLabels = ['job', 'instance', 'namespace'];
    const has = (name: string, label: string) => {
      const [sample] = page.get(name) ?? [];
      return !sample || prometheusLabels.includes(label) || label in sample.labels;
    };
    const wrong = selectors.filter(({ name, labels }) => !labels.every((each) => has(name, each)));
    expect(wrong).toEqual([]);
    for (const expression of expressions) {
      const measured = readSelectors(expression);
      const unknown = readGroups(expression).filter(
        (label) => !measured.some(({ name }) => has(name, label)),
      );
      expect(unknown, expression).toEqual([]);
    }
    const { templating } = await readDashboard();
    const variables = templating.list.flatMap(({ query }) =>
      typeof query === 'string' ? [] : [query.query],
    );
    expect(variables).toHaveLength(3);
    for (const variable of variables) {
      const [, name = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(variable) ?? [];
      expect(page.has(name) && has(name, label), variable).toBe(true);
    }
  });

  it('include every gauge of the gateway', async () => {
    const named = new Set((await readExpressions()).flatMap(readSelectors).map(({ name }) => name));
    const exported = [...(await scrape(worker)).keys()].filter((name) =>
      name.startsWith('gateway_'),
    );
    const states = exported.filter((name) => !/_(total|bucket|sum|count)$/.test(name));
    expect(states.length).toBeGreaterThan(10);
    expect(states.filter((name) => !named.has(name))).toEqual([]);
  });
});

describe('log lines', () => {
  it('contain the ids of the request, the job and the workflow', async () => {
    const answer = await call(generate, { prompt: 'a buoy', async: true });
    const { jobId } = (JSON.parse(answer.body) as { data: { jobId: string } }).data;
    await gateway.untilDone(jobId);
    const ids = { requestId, jobId, workflowId: jobId };
    const line = (process: SpawnedProcess, msg: string) =>
      process.lines.find((found) => found.msg === msg && found['jobId'] === jobId);
    await expect
      .poll(() => line(api, 'request.answered'))
      .toMatchObject({ ...ids, route: generate });
    await expect.poll(() => line(worker, 'reservation.decided')).toMatchObject(ids);
    await expect.poll(() => line(worker, 'reservation.charged')).toMatchObject(ids);
  });

  it('about a job contain its ids in every process, and other lines contain none', () => {
    const lines = [...api.lines, ...worker.lines];
    const nameless = lines.filter((line) => 'jobId' in line && !('workflowId' in line));
    expect(nameless).toEqual([]);
    const polling = worker.lines.filter((line) => line.msg === 'worker.polling');
    expect(polling).not.toEqual([]);
    expect(polling.filter((line) => 'requestId' in line)).toEqual([]);
  });
});

it('a process stops although a client of its metrics port sends nothing', async () => {
  await once(connect(api.metricsPort, '127.0.0.1'), 'connect');
  api.child.kill('SIGTERM');
  expect(await once(api.child, 'exit')).toEqual([0, null]);
});
