/** Chats of bulk jobs while their worker is killed, with two workers, and within budgets. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import type { BulkResource } from '../../bulk/bulk-view.ts';
import { readChats } from '../chat/chat-account.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import { makeForm } from '../harness/uploads.ts';
import { path, type Body } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
const model = 'gpt-5-nano';
const chat = (content: string, fields: object = {}) => ({
  use: 'chat',
  body: { model, messages: [{ role: 'user', content }], max_tokens: 50, ...fields },
});
type Item = ReturnType<typeof chat>;
const chats = (count: number, content = 'ahoy') =>
  Array.from({ length: count }, (_, index) => chat(`${content} ${index}`));
const countCalls = async (): Promise<number> =>
  (await gateway.sandbox.counters())['chatCalls'] ?? 0;

/** Starts an API and workers of their own, so that a test can kill them. */
async function startOwn(workers: number, workerEnv: Record<string, string> = {}) {
  const env = {
    TASK_QUEUE_PREFIX: `${randomUUID()}-`,
    API_PORT: '0',
    // The chats of a killed worker are settled sooner than in production.
    CHAT_RESERVATION_TTL_MS: '5000',
  };
  const started = [];
  for (let count = 0; count < workers; count += 1) {
    started.push(await gateway.spawn('worker', { ...env, ...workerEnv }));
  }
  const api = await gateway.spawn('api', env);
  const base = `http://127.0.0.1:${api.port}`;
  return {
    workers: started.map(({ child }) => child),
    startWorker: () => gateway.spawn('worker', env),
    /** Starts a batch of OpenAI's API, whose bulk job has the same items. */
    async acceptBatch({ key }: TestCaller, { items }: { items: Item[] }): Promise<string> {
      const url = '/v1/chat/completions';
      const lines = items.map((item, index) =>
        JSON.stringify({ custom_id: `${index}`, method: 'POST', url, body: item.body }),
      );
      const input = new File([lines.join('\n')], 'a.jsonl');
      const form = makeForm({ purpose: 'batch', file: input });
      const file = await gateway.call<{ id: string }>('/v1/files', { base, key, body: form });
      const body = { input_file_id: file.body.id, endpoint: url, completion_window: '24h' };
      const batch = await gateway.call<{ id: string }>('/v1/batches', { base, key, body });
      expect(batch.status, JSON.stringify(batch.body)).toBe(200);
      return batch.body.id;
    },
    async accept(caller: TestCaller, body: object): Promise<string> {
      const answer = await gateway.call<Body>(path, { base, body, key: caller.key });
      expect(answer.status, JSON.stringify(answer.body)).toBe(202);
      return answer.body.data.bulkId;
    },
  };
}

const read = async (caller: TestCaller, bulkId: string): Promise<BulkResource> =>
  (await gateway.call<Body>(`${path}/${bulkId}`, { key: caller.key })).body.data;

async function untilDone(caller: TestCaller, bulkId: string): Promise<BulkResource> {
  return until(async () => {
    const bulk = await read(caller, bulkId);
    return bulk.done && bulk;
  });
}

/** Checks that the charges of a bulk job are those of its chats, and that each item has one charged chat. */
async function expectExact(caller: TestCaller, ended: BulkResource): Promise<void> {
  const rows = await readChats(gateway, caller);
  expect(rows.filter(({ state }) => state === 'reserved')).toEqual([]);
  const charged = rows.reduce((sum, row) => sum + row.charged, 0);
  expect(Math.round(ended.credits.charged * 1e6)).toBe(charged);
  expect(rows.filter(({ state }) => state === 'charged')).toHaveLength(ended.counts.completed);
}

it('a worker that is killed leaves its sent chats failed, and no chat is sent twice', async () => {
  const own = await startOwn(1);
  const calls = await countCalls();
  const items = [...chats(4, '[[slow:60s]]'), ...chats(20)];
  const [one, other] = [await gateway.newCaller(), await gateway.newCaller()];
  const started = [
    { caller: one, bulkId: await own.accept(one, { items, concurrency: 8 }) },
    { caller: other, bulkId: await own.acceptBatch(other, { items }) },
  ];
  // The slow chats are claimed first, and stay reserved.
  for (const { caller } of started) {
    await until(async () => {
      const rows = await readChats(gateway, caller);
      return rows.length >= 8 && rows.filter(({ state }) => state === 'reserved').length >= 4;
    });
  }
  const [killed] = own.workers;
  killed?.kill('SIGKILL');
  if (killed) await once(killed, 'exit');
  await own.startWorker();
  for (const { caller, bulkId } of started) {
    const ended = await untilDone(caller, bulkId);
    expect(ended).toMatchObject({ status: 'completed', counts: { total: 24, waiting: 0 } });
    // Each item was sent once: the lost ones failed, the others were charged.
    const { failed } = ended.counts;
    expect(failed).toBeGreaterThan(0);
    const rows = await readChats(gateway, caller);
    expect(rows.filter(({ reason }) => reason === 'CHAT_LOST')).toHaveLength(failed);
    await expectExact(caller, ended);
    const failures = await gateway.call<{ data: { error: { code: string } | null }[] }>(
      `${path}/${bulkId}/items?state=failed`,
      { key: caller.key },
    );
    expect(new Set(failures.body.data.map(({ error }) => error?.code))).toEqual(
      new Set(['OUTCOME_UNKNOWN']),
    );
  }
  await gateway.sandbox.clearFaults();
  expect(await countCalls()).toBeLessThanOrEqual(calls + 48);
});

it('a worker that is stopped ends, and the next one goes on', async () => {
  const own = await startOwn(1);
  const caller = await gateway.newCaller({ credits: 100 });
  const calls = await countCalls();
  const items = [...chats(2, '[[slow:120s]]'), ...chats(80, '[[slow:300ms]]')];
  const bulkId = await own.accept(caller, { items, concurrency: 8 });
  await until(async () => (await countCalls()) >= calls + 20);
  const [stopped] = own.workers;
  stopped?.kill('SIGTERM');
  if (stopped) expect(await once(stopped, 'exit')).toEqual([0, null]);
  await own.startWorker();
  const ended = await untilDone(caller, bulkId);
  await gateway.sandbox.clearFaults();
  expect(ended.counts).toMatchObject({ total: 82, completed: 80, failed: 2 });
  expect(await countCalls()).toBe(calls + 82);
  await expectExact(caller, ended);
});

it('a worker sends to a provider no more chats of bulk jobs than it has places for them', async () => {
  // An organization holds at most half of the places.
  const own = await startOwn(1, { BULK_CHATS_MAX: '4' });
  const caller = await gateway.newCaller({ credits: 100 });
  const items = chats(12, '[[slow:200ms]]');
  const bulkId = await own.accept(caller, { items, concurrency: 8 });
  const ended = await untilDone(caller, bulkId);
  expect(ended.counts).toMatchObject({ completed: 12, failed: 0 });
  // A chat holds its place from before its reservation until after its settlement.
  const [most] = await gateway.database.query<{ together: string }>(
    `SELECT count(*) AS together FROM reservation a JOIN reservation b ON b.organization_id = a.organization_id
       AND b.created_at <= a.created_at AND b.settled_at > a.created_at
     WHERE a.organization_id = $1 GROUP BY a.id ORDER BY together DESC LIMIT 1`,
    [caller.organizationId],
  );
  expect(Number(most?.together)).toBeLessThanOrEqual(2);
});

it('two workers answer the chats of several bulk jobs, each once', async () => {
  const own = await startOwn(2);
  const callers = await Promise.all([0, 1].map(() => gateway.newCaller({ credits: 100 })));
  const calls = await countCalls();
  const started = await Promise.all(
    callers.map(async (caller) => ({
      caller,
      bulkId: await own.accept(caller, { items: chats(60), concurrency: 16 }),
    })),
  );
  for (const { caller, bulkId } of started) {
    const ended = await untilDone(caller, bulkId);
    expect(ended.counts).toMatchObject({ completed: 60, failed: 0 });
    await expectExact(caller, ended);
  }
  expect(await countCalls()).toBe(calls + 120);
});

it('an activity that runs twice at the same time sends each chat once', async () => {
  const caller = await gateway.newCaller({ credits: 100 });
  const calls = await countCalls();
  const { body } = await gateway.call<Body>(path, {
    body: { items: chats(40, '[[slow:200ms]]'), concurrency: 8 },
    key: caller.key,
  });
  const { bulkId } = body.data;
  // A workflow that was terminated does not end its activity, and the next one starts another.
  await until(async () => (await countCalls()) > calls);
  await gateway.getWorkflow(bulkId).terminate('test');
  await until(async () => {
    const { status } = await read(caller, bulkId);
    if (status !== 'stopped') return status === 'completed';
    const resumed = await gateway.call(`${path}/${bulkId}/resume`, {
      method: 'POST',
      key: caller.key,
    });
    return resumed.status === 200;
  });
  const ended = await untilDone(caller, bulkId);
  expect(ended.counts).toMatchObject({ completed: 40, failed: 0 });
  await expectExact(caller, ended);
  expect(await countCalls()).toBe(calls + 40);
});

it('a budget is never exceeded, and missing credits pause the bulk job', async () => {
  // The answers are as long as they may be.
  const words = '[[words:60]]';
  const caller = await gateway.newCaller({ credits: 100 });
  const estimate = await gateway.call<{ data: { credits: number } }>(`${path}/estimate`, {
    body: { items: chats(1, words) },
    key: caller.key,
  });
  const price = estimate.body.data.credits;
  const budgeted = await gateway.call<Body>(path, {
    body: { items: chats(10, words), maxCredits: price * 2 },
    key: caller.key,
  });
  const stopped = await untilDone(caller, budgeted.body.data.bulkId);
  expect(stopped).toMatchObject({ status: 'stopped', stopReason: 'MAX_CREDITS' });
  expect(stopped.credits.charged).toBeLessThanOrEqual(price * 2);
  expect(stopped.counts.completed).toBeGreaterThan(0);
  await expectExact(caller, stopped);

  const poor = await gateway.newCaller({ credits: price * 1.5 });
  const { body } = await gateway.call<Body>(path, {
    body: { items: chats(5, words) },
    key: poor.key,
  });
  const paused = await until(async () => {
    const bulk = await read(poor, body.data.bulkId);
    return (bulk.status === 'paused' || bulk.done) && bulk;
  });
  expect(paused).toMatchObject({ status: 'paused', stopReason: 'INSUFFICIENT_CREDITS' });
  const canceled = await gateway.call<Body>(`${path}/${paused.bulkId}/cancel`, {
    method: 'POST',
    key: poor.key,
  });
  expect(canceled).toMatchObject({ status: 200, body: { data: { status: 'canceled' } } });
  await expectExact(poor, await untilDone(poor, paused.bulkId));
});
