/**
 * Chats that end with a failure: callers that disconnect, readers that do not read, upstreams that
 * break off, report no usage or false usage. Each chat ends in exactly one settlement.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import { isWhole } from '../harness/whole.ts';
import { readChats, untilSettled, untilAllSettled } from './chat-account.ts';
import { deltasIn, openChat, postChat, readDeltas, readRest, type SentChat } from './raw-chat.ts';

const gateway = useGateway({
  settled: 'last',
  env: {
    CHAT_CHECKPOINT_MS: '200',
    CHAT_RESERVATION_TTL_MS: '1000',
    // Longer than the pauses of readers and providers on a busy machine.
    CHAT_SILENCE_TIMEOUT_MS: '6000',
  },
});

/** Micro-credits per token of the models used here. */
const prices = {
  'gpt-4o': { input: 250, output: 1000 },
  'claude-sonnet-5': { input: 200, output: 1000 },
};
type Model = keyof typeof prices;
const models: Model[] = ['gpt-4o', 'claude-sonnet-5'];

/** Opens a chat of a new caller. */
async function open(content: string, sent: Partial<SentChat> & { base?: string } = {}) {
  const { base = gateway.url, caller = await gateway.newCaller({ credits: 100 }), ...rest } = sent;
  const opened = await openChat(base, { caller, content, maxTokens: 2000, ...rest });
  return { caller, ...opened };
}
const settled = (caller: TestCaller) => untilSettled(gateway, caller);
const left = async (): Promise<number> => (await gateway.sandbox.counters())['chatCallsLeft'] ?? 0;

/** Returns the characters of all whole deltas. */
function charactersIn(text: string): number {
  const deltas = text.matchAll(/"type":"delta","delta":"([^"]*)"\}\n\n/g);
  return [...deltas].reduce((sum, [, delta = '']) => sum + delta.length, 0);
}

describe('a caller that disconnects', () => {
  it.each(models)(
    'is charged for the delivered output; the upstream request is aborted (%s)',
    async (model) => {
      const before = await left();
      const { caller, answer, hangUp } = await open(
        '[[words:500]] [[slow-chunks:100ms]] tell me a lot',
        { model },
      );
      await readDeltas(answer, 10);
      hangUp();
      const row = await settled(caller);
      expect(row).toMatchObject({ state: 'charged', counted_by: 'gateway', reason: 'chat left' });
      expect(row.charged).toBeLessThanOrEqual(row.amount);
      // Ten words of five characters, and the words that were in transit.
      expect(row.output_tokens).toBeGreaterThanOrEqual(12);
      expect(row.output_tokens).toBeLessThan(60);
      const { input, output } = prices[model];
      expect(row.charged).toBe(row.input_tokens * input + row.output_tokens * output);
      await expect.poll(left).toBeGreaterThan(before);
    },
  );

  const times = isWhole ? 100 : 24;
  it(`at a random moment, ${times} times, is charged at least for the output it read and at most for the output that was sent`, async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const read = new Map<string, number>();
    const leave = async (index: number): Promise<void> => {
      const { answer, hangUp } = await open('[[words:60]] [[slow-chunks:8ms]]', {
        caller,
        maxTokens: 100,
        model: models[index % 2] ?? 'gpt-4o',
      });
      const text = await readDeltas(answer, 1 + Math.floor(Math.random() * 50));
      hangUp();
      const [, id = ''] = /"id":"(chat_\w+)"/.exec(text) ?? [];
      read.set(id, charactersIn(text));
    };
    await Promise.all(Array.from({ length: times }, (_, index) => leave(index)));
    const rows = await untilAllSettled(gateway, caller);
    expect(rows).toHaveLength(times);
    for (const row of rows) {
      expect(row.state).toBe('charged');
      // The gateway counts a token per four characters. A caller who disconnects after the last
      // word is charged by the provider's count: one per word.
      const readTokens = (read.get(row.id) ?? Infinity) / 4;
      const least = row.counted_by === 'provider' ? 60 : readTokens;
      expect(row.output_tokens).toBeGreaterThanOrEqual(least);
      expect(row.output_tokens).toBeLessThanOrEqual(75);
      expect(row.charged).toBeGreaterThan(0);
      expect(row.charged).toBeLessThanOrEqual(row.amount);
    }
  });
});

describe('an upstream', () => {
  it.each(models.flatMap((model) => ['', ';end=clean'].map((end) => [model, end] as const)))(
    'that breaks off is charged for its delivered output, and never ends in [DONE] (%s%s)',
    async (model, end) => {
      const { caller, answer } = await open(`[[words:40]] [[stream-cut:20${end}]]`, { model });
      const text = await readRest(answer);
      expect(deltasIn(text)).toBeGreaterThan(0);
      expect(text).toContain('"type":"error"');
      expect(text).not.toContain('[DONE]');
      const row = await settled(caller);
      // 20 words of 5 characters.
      expect(row).toMatchObject({
        state: 'charged',
        counted_by: 'gateway',
        output_tokens: 25,
        reason: 'chat broken',
      });
      expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
    },
  );

  it.each<[Model, string, boolean]>([
    ...models.flatMap((model): [Model, string, boolean][] => [
      [model, 'no-usage', true],
      [model, 'no-usage', false],
      [model, 'lying-usage:-1', true],
      [model, 'lying-usage:none', true],
    ]),
    ['claude-sonnet-5', 'lying-usage:none', false],
    ['gpt-4o', 'lying-usage:-1', false],
    ['gpt-4o', 'lying-usage:0.01', true],
  ])(
    'without usage or with invalid usage is charged by the gateway’s count (%s, %s, streamed: %s)',
    async (model, fault, stream) => {
      const content = `[[words:40]] [[${fault}]]`;
      const { caller, answer } = await open(content, { model, stream });
      expect(answer.statusCode).toBe(200);
      const text = await readRest(answer);
      const row = await settled(caller);
      expect(row).toMatchObject({ state: 'charged', counted_by: 'gateway', output_tokens: 50 });
      expect(row.input_tokens).toBeGreaterThan(0);
      expect(row.charged).toBeLessThanOrEqual(row.amount);
      expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
    },
  );

  it.each(models.flatMap((model) => [1e6, 1e15, 1e30].map((factor) => [model, factor] as const)))(
    'that reports more tokens than its request can have is charged what it can have (%s × %s)',
    async (model, factor) => {
      for (const stream of [true, false]) {
        const content = `[[words:40]] [[lying-usage:${factor}]]`;
        const { caller, answer } = await open(content, { model, stream, maxTokens: 60 });
        const text = await readRest(answer);
        const row = await settled(caller);
        expect(row).toMatchObject({ counted_by: 'provider', output_tokens: 60 });
        // At most a token per byte that was sent.
        expect(row.input_tokens).toBeGreaterThan(content.length);
        expect(row.input_tokens).toBeLessThan(content.length + 250);
        const { input, output } = prices[model];
        expect(row.charged).toBe(row.input_tokens * input + row.output_tokens * output);
        expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
      }
    },
  );

  it('that reports too many tokens is counted in the metrics', async () => {
    const { answer } = await open('[[words:40]] [[lying-usage:10]]', { maxTokens: 60 });
    await readRest(answer);
    const { chatUsageCapped } = gateway.api.services.telemetry.metrics;
    expect((await chatUsageCapped.get()).values).toContainEqual(
      expect.objectContaining({ labels: { provider: 'openai' } }),
    );
  });

  it('that stays silent is aborted', async () => {
    const { caller, answer } = await open('[[words:9]] [[slow-chunks:60s]]');
    expect(await readRest(answer)).toContain('"error":"DEADLINE_EXCEEDED"');
    expect(await settled(caller)).toMatchObject({
      state: 'released',
      charged: 0,
      checkpoint_micro: 0,
    });
  });
});

describe('a slow reader', () => {
  it('that reads nothing is disconnected, and charged for the bytes that were sent', async () => {
    // The provider sends 20 MB, more than kernels buffer.
    const { caller, answer, hangUp } = await open('[[words:1000;size=20000]]', { maxTokens: 1000 });
    answer.pause();
    const row = await settled(caller);
    expect(row).toMatchObject({ state: 'charged', reason: 'chat left' });
    expect(row.charged).toBeLessThanOrEqual(row.amount);
    hangUp();
  });

  it('that reads slowly receives everything', async () => {
    const { caller, answer } = await open('[[words:300;size=5000]]', { maxTokens: 1000 });
    let size = 0;
    for await (const chunk of answer) {
      size += (chunk as Buffer).length;
      await sleep(5);
    }
    expect(size).toBeGreaterThan(1_500_000);
    expect(await settled(caller)).toMatchObject({
      state: 'charged',
      counted_by: 'provider',
      output_tokens: 300,
    });
  });
});

it('a long chat has checkpoints while it runs, so that the sweeper leaves it alone', async () => {
  const { caller, answer } = await open('[[words:200]] [[slow-chunks:60ms]]');
  const reading = readRest(answer);
  // A chat without checkpoints has expired by then, and would be swept.
  const outlived = `SELECT FROM reservation WHERE organization_id = $1 AND checkpoint_micro > 0
    AND expires_at > created_at + interval '3 seconds'`;
  await until(async () => (await gateway.database.query(outlived, [caller.organizationId]))[0]);
  const { chatLedger } = gateway.api.services;
  expect(await chatLedger.sweep({ graceMs: 0, everyMs: 1000 })).toEqual([]);
  expect((await readChats(gateway, caller))[0]?.state).toBe('reserved');
  expect(await reading).toContain('[DONE]');
  expect(await settled(caller)).toMatchObject({ output_tokens: 200, counted_by: 'provider' });
});

it('an API that receives SIGTERM finishes its chats first', async () => {
  const { child, port } = await gateway.spawn('api', { API_PORT: '0' });
  const { caller, answer } = await open('[[words:20]] [[slow-chunks:40ms]]', {
    base: `http://127.0.0.1:${port}`,
  });
  await readDeltas(answer, 3);
  const abandoned = await gateway.newCaller({ credits: 100 });
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: '[[slow:3s]] hello' }] };
  const leaving = new AbortController();
  const request = { base: `http://127.0.0.1:${port}`, body, signal: leaving.signal };
  const answered = postChat(gateway, abandoned, request).catch(() => null);
  await expect.poll(() => readChats(gateway, abandoned)).toHaveLength(1);
  leaving.abort();
  await answered;
  child.kill('SIGTERM');
  expect(await readRest(answer)).toContain('[DONE]');
  await once(child, 'exit');
  expect(await readChats(gateway, abandoned)).toMatchObject([{ state: 'charged' }]);
  expect(await readChats(gateway, caller)).toMatchObject([{ state: 'charged', output_tokens: 20 }]);
});
