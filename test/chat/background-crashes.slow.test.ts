/** Chat jobs while their worker, their API or their stream ends, and while Temporal is away. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, expect, inject, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import { readChats, untilSettled } from './chat-account.ts';

const gateway = useGateway({ settled: 'last' });

const sockets: Socket[] = [];
const proxy = createServer((client) => {
  const [host = '', port] = inject('temporalAddress').split(':');
  const upstream = connect(Number(port), host);
  client.pipe(upstream).pipe(client);
  for (const socket of [client, upstream]) {
    sockets.push(socket);
    socket.on('error', () => {});
  }
}).listen(0, '127.0.0.1');
await once(proxy, 'listening');
afterAll(() => proxy.close());

/** Starts an API and a worker of their own, so that a test can kill them. */
async function startOwn(workerEnv: Record<string, string> = {}) {
  const env = { TASK_QUEUE_PREFIX: `${randomUUID()}-`, API_PORT: '0' };
  const worker = await gateway.spawn('worker', { ...env, ...workerEnv });
  const api = await gateway.spawn('api', env);
  const caller = await gateway.newCaller({ credits: 100 });
  return {
    caller,
    worker: worker.child,
    api: api.child,
    client: createClient(`http://127.0.0.1:${api.port}`, caller),
    startWorker: () => gateway.spawn('worker', env),
  };
}

const createClient = (url: string, { key }: TestCaller): OpenAI =>
  new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });

const countCalls = async (): Promise<number> =>
  (await gateway.sandbox.counters())['chatCalls'] ?? 0;

it('a worker that is killed in the middle of an answer is charged by its last checkpoint', async () => {
  const { caller, worker, client, startWorker } = await startOwn();
  const calls = await countCalls();
  const input = '[[words:2000]] [[slow-chunks:50ms]]';
  const { id } = await client.responses.create({ model: 'gpt-4o', input, background: true });
  await until(async () => (await readChats(gateway, caller))[0]?.checkpoint_micro);
  await until(async () => (await client.responses.retrieve(id)).output_text !== '');
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  const [lost] = await readChats(gateway, caller);
  await startWorker();
  const row = await untilSettled(gateway, caller);
  expect(row).toMatchObject({ id, state: 'charged', reason: 'CHAT_LOST', counted_by: 'gateway' });
  expect(row.charged).toBe(lost?.checkpoint_micro);
  const response = await client.responses.retrieve(id);
  expect(response).toMatchObject({ status: 'failed', creditsConsumed: row.charged / 1e6 });
  expect(response.output_text).toContain('0xxx 1xxx');
  expect(await countCalls()).toBe(calls + 1);
});

it('a worker that is stopped ends its answers after a while, and what was delivered is charged', async () => {
  const { caller, worker, client, startWorker } = await startOwn();
  const calls = await countCalls();
  const input = '[[words:5000]] [[slow-chunks:50ms]]';
  const { id } = await client.responses.create({ model: 'gpt-4o', input, background: true });
  await until(async () => (await client.responses.retrieve(id)).output_text !== '');
  worker.kill('SIGTERM');
  const [code] = (await once(worker, 'exit')) as [number | null];
  expect(code).toBe(0);
  await startWorker();
  const row = await untilSettled(gateway, caller);
  expect(row).toMatchObject({ id, state: 'charged', reason: 'chat left' });
  const response = await client.responses.retrieve(id);
  expect(response).toMatchObject({ status: 'failed', creditsConsumed: row.charged / 1e6 });
  expect(response.usage?.output_tokens).toBe(row.output_tokens);
  // The gateway counts a token for four characters.
  expect(Math.ceil(response.output_text.length / 4)).toBe(row.output_tokens);
  expect(await countCalls()).toBe(calls + 1);
});

it('a stream goes on at another API after its own was killed, and is charged once', async () => {
  const { caller, api, client } = await startOwn();
  const calls = await countCalls();
  const request = { model: 'gpt-4o', input: '[[words:80]] [[slow-chunks:50ms]]' };
  const events: ResponseStreamEvent[] = [];
  const stream = await client.responses.create({ ...request, background: true, stream: true });
  const cut = (async () => {
    for await (const event of stream) {
      events.push(event);
      if (events.length === 10) api.kill('SIGKILL');
    }
  })();
  await expect(cut).rejects.toThrow();
  const [created] = events;
  if (created?.type !== 'response.created') throw new Error('the stream begins with another event');
  const rest = await createClient(gateway.url, caller).responses.retrieve(created.response.id, {
    stream: true,
    starting_after: events.at(-1)?.sequence_number ?? 0,
  });
  for await (const event of rest) events.push(event);
  expect(events.map(({ sequence_number: number }) => number)).toEqual([...events.keys()]);
  expect(events.at(-1)).toMatchObject({ type: 'response.completed' });
  expect(await untilSettled(gateway, caller)).toMatchObject({
    state: 'charged',
    output_tokens: 80,
  });
  expect(await countCalls()).toBe(calls + 1);
});

it('an answer survives an outage of Temporal that is longer than the heartbeat timeout', async () => {
  const { port } = proxy.address() as AddressInfo;
  const { caller, client } = await startOwn({ TEMPORAL_ADDRESS: `127.0.0.1:${port}` });
  const calls = await countCalls();
  const input = '[[words:600]] [[slow-chunks:50ms]]';
  const { id } = await client.responses.create({ model: 'gpt-4o', input, background: true });
  await until(async () => (await client.responses.retrieve(id)).output_text !== '');
  for (const socket of sockets) socket.pause();
  // The server ends the attempt after 15 seconds without a heartbeat.
  await sleep(20_000);
  for (const socket of sockets) socket.resume();
  const row = await untilSettled(gateway, caller);
  expect(row).toMatchObject({ id, state: 'charged', output_tokens: 600 });
  const response = await until(async () => {
    const found = await client.responses.retrieve(id);
    return found.status === 'completed' && found;
  });
  expect(response.output_text.split(' ')).toHaveLength(601);
  expect(await countCalls()).toBe(calls + 1);
});

async function readEvents(stream: AsyncIterable<ResponseStreamEvent>, max = Infinity) {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length === max) break;
  }
  return events;
}

it('a stream that is cut at random places has each event exactly once', async () => {
  const caller = await gateway.newCaller({ credits: 100 });
  const client = createClient(gateway.url, caller);
  const request = { model: 'gpt-4o', input: '[[words:60]] [[slow-chunks:20ms]]' };
  const live = await readEvents(await client.responses.create({ ...request, stream: true }));
  const first = await client.responses.create({ ...request, background: true, stream: true });
  const events = await readEvents(first, 3);
  const [created] = events;
  if (created?.type !== 'response.created') throw new Error('the stream begins with another event');
  const { id } = created.response;
  while (!['response.completed', 'response.failed'].includes(String(events.at(-1)?.type))) {
    const stream = await client.responses.retrieve(id, {
      stream: true,
      starting_after: events.at(-1)?.sequence_number ?? 0,
    });
    events.push(...(await readEvents(stream, 1 + Math.floor(Math.random() * 40))));
  }
  expect(events.map(({ sequence_number: number }) => number)).toEqual([...live.keys()]);
  expect(events.map(({ type }) => type)).toEqual(live.map(({ type }) => type));
  const whole = await readEvents(await client.responses.retrieve(id, { stream: true }));
  expect(events).toEqual(whole);
  const last = whole.at(-1);
  expect(last).toMatchObject({ type: 'response.completed' });
  if (last?.type !== 'response.completed') return;
  expect(await client.responses.retrieve(id)).toMatchObject(last.response);
  expect(await readChats(gateway, caller)).toHaveLength(2);
});
