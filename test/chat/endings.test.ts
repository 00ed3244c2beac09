/**
 * Chats that end with a failure: callers that disconnect, readers that do not read, upstreams that
 * break off, report no usage or false usage, and an API that is killed. Each chat ends in exactly
 * one settlement.
 */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { chatsOf, settledChatOf, settledChatsOf } from './chat-account.ts';
import { openChat, textOf, type SentChat } from './raw-chat.ts';

/** Terms of a sweep without a grace period. */
const atOnce = { graceMs: 0, everyMs: 1000 };
const gateway = useGateway({
  env: {
    CHAT_CHECKPOINT_MS: '200',
    CHAT_RESERVATION_TTL_MS: '1000',
    // Longer than the pauses of readers and providers on a busy machine.
    CHAT_STALL_TIMEOUT_MS: '4000',
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

type Sent = SentChat & { base?: string };
const open = ({ base = gateway.url, ...sent }: Sent) =>
  openChat(base, { maxTokens: 2000, ...sent });

/** Reads until this many deltas have arrived. */
async function readDeltas(answer: IncomingMessage, count: number): Promise<string> {
  let text = '';
  for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    if (text.split('"type":"delta"').length > count) break;
  }
  return text;
}

/** Sends a chat and disconnects once its credits are reserved. */
async function leaveEarly(
  caller: TestCaller,
  sent: { content: string; stream: boolean },
): Promise<void> {
  const controller = new AbortController();
  const response = fetch(`${gateway.url}/api/v1/chat`, {
    method: 'POST',
    signal: controller.signal,
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'gpt-4o',
      messages: [{ role: 'user', content: sent.content }],
      stream: sent.stream,
    }),
  }).catch(() => null);
  while ((await chatsOf(gateway, caller)).length === 0) await sleep(10);
  controller.abort();
  await response;
}

const newCaller = (): Promise<TestCaller> => gateway.newCaller({ credits: 100 });
const left = async (): Promise<number> => (await gateway.sandbox.counters())['chatCallsLeft'] ?? 0;

describe('a caller that disconnects', () => {
  it.each(models)(
    'is charged for the delivered output; the upstream request is aborted (%s)',
    async (model) => {
      const caller = await newCaller();
      const before = await left();
      const { answer, hangUp } = await open({
        caller,
        model,
        content: '[[words:500]] [[slow-chunks:100ms]] tell me a lot',
      });
      await readDeltas(answer, 10);
      hangUp();
      const row = await settledChatOf(gateway, caller);
      expect(row).toMatchObject({ state: 'charged', counted_by: 'gateway', reason: 'chat left' });
      expect(row.charged).toBeGreaterThan(0);
      expect(row.charged).toBeLessThanOrEqual(row.amount);
      // Ten words of five characters, and the words that were in transit.
      expect(row.output_tokens).toBeGreaterThanOrEqual(12);
      expect(row.output_tokens).toBeLessThan(60);
      const { input, output } = prices[model];
      expect(row.charged).toBe(row.input_tokens * input + row.output_tokens * output);
      await expect.poll(left).toBe(before + 1);
    },
  );

  it('is charged nothing before the first token', async () => {
    const caller = await newCaller();
    await leaveEarly(caller, { content: '[[slow:5s]] tell me', stream: true });
    expect(await settledChatOf(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  });

  it('from a whole response is charged for it, because the provider bills it anyway', async () => {
    const caller = await newCaller();
    await leaveEarly(caller, { content: '[[slow:600ms]] [[words:30]]', stream: false });
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      state: 'charged',
      counted_by: 'provider',
      output_tokens: 30,
    });
  });

  it('at random moments: 60 disconnected chats end in 60 settlements', async () => {
    const caller = await newCaller();
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const { answer, hangUp } = await open({
          caller,
          content: '[[words:100]] [[slow-chunks:5ms]]',
          maxTokens: 100,
          model: models[index % 2] ?? 'gpt-4o',
        });
        await readDeltas(answer, 1);
        await sleep(Math.random() * 600);
        hangUp();
      }),
    );
    const rows = await settledChatsOf(gateway, caller);
    expect(rows).toHaveLength(60);
    for (const row of rows) {
      expect(row.state).toBe('charged');
      expect(row.charged).toBeGreaterThan(0);
      expect(row.charged).toBeLessThanOrEqual(row.amount);
    }
  });
});

describe('a faulty upstream', () => {
  it.each(models)('that breaks off is charged for its delivered output (%s)', async (model) => {
    const caller = await newCaller();
    const { answer } = await open({ caller, model, content: '[[words:40]] [[stream-cut:20]]' });
    const text = await textOf(answer);
    expect(text).toContain('"type":"error"');
    expect(text).not.toContain('[DONE]');
    const row = await settledChatOf(gateway, caller);
    // 20 words of 5 characters.
    expect(row).toMatchObject({
      state: 'charged',
      counted_by: 'gateway',
      output_tokens: 25,
      reason: 'chat broken',
    });
    expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
  });

  it.each(models)('that reports no usage is charged by the gateway’s count (%s)', async (model) => {
    for (const stream of [true, false]) {
      const caller = await newCaller();
      const { answer } = await open({
        caller,
        model,
        stream,
        content: '[[words:40]] [[no-usage]]',
      });
      const text = await textOf(answer);
      const row = await settledChatOf(gateway, caller);
      expect(row).toMatchObject({ state: 'charged', counted_by: 'gateway', output_tokens: 50 });
      expect(row.input_tokens).toBeGreaterThan(0);
      expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
    }
  });

  it.each([10, 1_000_000, 1_000_000_000_000_000])(
    'that reports %d times the tokens is charged by the gateway’s count',
    async (factor) => {
      for (const stream of [true, false]) {
        const caller = await newCaller();
        const { answer } = await open({
          caller,
          stream,
          content: `[[words:40]] [[lying-usage:${factor}]]`,
          maxTokens: 60,
        });
        const text = await textOf(answer);
        const row = await settledChatOf(gateway, caller);
        expect(row).toMatchObject({ state: 'charged', output_tokens: 50, counted_by: 'gateway' });
        expect(text).toContain(`"creditsConsumed":${row.charged / 1e6}`);
      }
      const rejected = await gateway.api.services.telemetry.metrics.chatUsageRejected.get();
      expect(rejected.values).toContainEqual(
        expect.objectContaining({ labels: { provider: 'openai' } }),
      );
    },
  );

  it('that stays silent is aborted', async () => {
    const caller = await newCaller();
    const { answer } = await open({ caller, content: '[[words:9]] [[slow-chunks:60s]]' });
    const text = await textOf(answer);
    expect(text).toContain('"error":"DEADLINE_EXCEEDED"');
    expect(await settledChatOf(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  });
});

describe('a slow reader', () => {
  it('that reads nothing is disconnected, and charged for the bytes that were sent', async () => {
    const caller = await newCaller();
    const readers = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const reader = await open({
          caller,
          content: '[[words:1000;size=20000]]',
          maxTokens: 1000,
        });
        reader.answer.pause();
        return reader;
      }),
    );
    const rows = await settledChatsOf(gateway, caller);
    expect(rows).toHaveLength(8);
    for (const row of rows) {
      expect(row).toMatchObject({ state: 'charged', reason: 'chat left' });
      // The provider sent 20 MB, more than kernels buffer; the bytes in the sockets are charged.
      expect(row.charged).toBeLessThanOrEqual(row.amount);
    }
    for (const reader of readers) reader.hangUp();
  });

  it('that reads slowly receives everything', async () => {
    const caller = await newCaller();
    const { answer } = await open({ caller, content: '[[words:300;size=5000]]', maxTokens: 1000 });
    let size = 0;
    for await (const chunk of answer) {
      size += (chunk as Buffer).length;
      await sleep(5);
    }
    expect(size).toBeGreaterThan(1_500_000);
    const row = await settledChatOf(gateway, caller);
    expect(row).toMatchObject({ state: 'charged', counted_by: 'provider', output_tokens: 300 });
  });
});

describe('a long chat', () => {
  it('has checkpoints while it runs, so that the sweeper leaves it alone', async () => {
    const caller = await newCaller();
    const { answer } = await open({ caller, content: '[[words:150]] [[slow-chunks:40ms]]' });
    const reading = textOf(answer);
    await sleep(1600);
    const [running] = await chatsOf(gateway, caller);
    expect(running?.state).toBe('reserved');
    expect(running?.checkpoint_micro).toBeGreaterThan(0);
    // Longer than the reservation's time to live: without checkpoints it would be swept now.
    expect(await gateway.api.services.chatLedger.sweep(atOnce)).toEqual([]);
    expect(await reading).toContain('[DONE]');
    const row = await settledChatOf(gateway, caller);
    expect(row).toMatchObject({ output_tokens: 150, counted_by: 'provider' });
  });
});

describe('an API that stops', () => {
  it('after a kill leaves its chats to the sweeper, which charges the last checkpoint or releases', async () => {
    const { child, port } = await gateway.spawn('api', {
      API_PORT: '0',
      CHAT_RESERVATION_TTL_MS: '5000',
    });
    const base = `http://127.0.0.1:${port}`;
    const started = await newCaller();
    const silent = await newCaller();
    const { answer } = await open({
      base,
      caller: started,
      content: '[[words:500]] [[slow-chunks:20ms]]',
    });
    const waiting = open({ base, caller: silent, content: '[[slow:20s]]', stream: false });
    waiting.catch(() => {});
    const deltas = await readDeltas(answer, 40);
    expect(deltas).toContain('"type":"delta"');
    child.kill('SIGKILL');
    await once(child, 'exit');

    const [lost] = await chatsOf(gateway, started);
    expect(lost?.state).toBe('reserved');
    const ledger = createChatLedger(gateway.api.services.pool);
    const sweep = () => ledger.sweep(atOnce);
    // The reservations have not expired yet.
    expect(await sweep()).toEqual([]);
    const swept: unknown[] = [];
    await expect
      .poll(async () => swept.push(...(await Promise.all([sweep(), sweep()])).flat()))
      .toBe(2);

    const charged = await settledChatOf(gateway, started);
    expect(charged).toMatchObject({ state: 'charged', reason: 'CHAT_LOST', counted_by: 'gateway' });
    // A checkpoint that the process sent before it was killed may be written after this read.
    expect(charged.charged).toBeGreaterThanOrEqual(lost?.checkpoint_micro ?? Infinity);
    expect(charged.charged).toBeGreaterThan(0);
    expect(await settledChatOf(gateway, silent)).toMatchObject({ state: 'released', charged: 0 });
  });

  it('on SIGTERM finishes its chats first', async () => {
    const { child, port } = await gateway.spawn('api', { API_PORT: '0' });
    const caller = await newCaller();
    const { answer } = await open({
      base: `http://127.0.0.1:${port}`,
      caller,
      content: '[[words:20]] [[slow-chunks:40ms]]',
    });
    await readDeltas(answer, 3);
    child.kill('SIGTERM');
    expect(await textOf(answer)).toContain('[DONE]');
    await once(child, 'exit');
    expect(await chatsOf(gateway, caller)).toMatchObject([{ state: 'charged', output_tokens: 20 }]);
  });
});
