/**
 * Hanging up before the first token: what the provider has said it counted is charged, and a key that
 * lives on ends of which nothing is known is refused.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { settledChatOf, settledChatsOf } from './chat-account.ts';

const gateway = useGateway({ worker: false, env: { CHAT_ABANDONED_MAX: '3' } });

interface Wanted {
  content: unknown;
  model?: string;
  stream?: boolean;
  /** How many calls the provider has had by then; without it, one more than before. */
  calls?: number;
}

const chatCalls = async () => (await gateway.sandbox.counters())['chatCalls'] ?? 0;

/** Asks, and hangs up a little after the provider was asked; what came by then. */
async function abandon(caller: TestCaller, wanted: Wanted, base = gateway.url): Promise<string> {
  const { content, model = 'gpt-4o', stream = true, calls = (await chatCalls()) + 1 } = wanted;
  const controller = new AbortController();
  void expect
    .poll(chatCalls)
    .toBeGreaterThanOrEqual(calls)
    .then(() => sleep(500))
    .finally(() => controller.abort());
  let text = '';
  try {
    const answer = await fetch(`${base}/api/v1/chat`, {
      method: 'POST',
      signal: controller.signal,
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content }],
        stream,
        max_tokens: 100,
      }),
    });
    for await (const chunk of answer.body ?? [])
      text += Buffer.from(chunk as Uint8Array).toString();
  } catch {
    // Hung up.
  }
  return text;
}

const chat = (caller: TestCaller, base = gateway.url) =>
  fetch(`${base}/api/v1/chat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'gpt-4o',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'hello' }],
    }),
  });

/** Abandons so many chats, the last when the others are on record: of two at once, none may be the last. */
async function abandonMany(caller: TestCaller, wanted: Wanted, times: number): Promise<void> {
  const counted = () =>
    gateway.database.query('SELECT FROM abandoned_chat WHERE key_id = $1', [caller.keyId]);
  const others = { ...wanted, calls: (await chatCalls()) + times - 1 };
  await Promise.all(Array.from({ length: times - 1 }, () => abandon(caller, others)));
  await expect.poll(async () => (await counted()).length).toBe(times - 1);
  await abandon(caller, wanted);
  await expect.poll(async () => (await counted()).length).toBe(times);
}

/** Its process hears of a count a moment after it is on record. */
const untilRefused = (caller: TestCaller, base = gateway.url) =>
  expect.poll(async () => (await chat(caller, base)).status).toBe(429);

const newCaller = () => gateway.newCaller({ credits: 100 });
const silent = { content: '[[slow:5s]] tell me' };

describe('a caller who hangs up before the first token', () => {
  it('pays what the provider has said it counted', async () => {
    const caller = await newCaller();
    const content = `[[counted-input:40000]] [[slow-chunks:5s]] ${'word '.repeat(2000)}`;
    const text = await abandon(caller, { content, model: 'claude-sonnet-5' });
    expect(text).not.toContain('delta');
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      state: 'charged',
      reason: 'chat left',
      input_tokens: 40_000,
      counted_by: 'provider',
      // At most what was reserved for this much text.
      charged: expect.any(Number),
    });
  });

  it('pays exactly that', async () => {
    const caller = await newCaller();
    const content = `[[slow-chunks:5s]] ${'word '.repeat(500)}`;
    await abandon(caller, { content, model: 'claude-sonnet-5' });
    const row = await settledChatOf(gateway, caller);
    expect(row.input_tokens).toBeGreaterThan(500);
    // The provider begins with one token of output.
    expect(row.charged).toBe(row.input_tokens * 200 + 1000);
  });

  it('pays nothing when the provider has said nothing, which is counted', async () => {
    const caller = await newCaller();
    await abandon(caller, silent);
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      state: 'released',
      reason: 'chat abandoned',
    });
  });

  it('of a document too, although some of the answer came: nobody knows what it cost', async () => {
    const caller = await newCaller();
    const file = { file_data: 'data:application/pdf;base64,JVBERi0x', filename: 'a.pdf' };
    const text = '[[words:50]] [[slow-chunks:50ms]] read it';
    await abandon(caller, {
      content: [
        { type: 'text', text },
        { type: 'file', file },
      ],
    });
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      state: 'charged',
      reason: 'chat abandoned',
      counted_by: 'gateway',
    });
  });
});

describe('a key that lives on such ends', () => {
  it.each([true, false])('is refused (stream: %s)', async (stream) => {
    const caller = await newCaller();
    // A whole answer is awaited for ten seconds.
    const content = '[[slow:30s]] tell me';
    await abandonMany(caller, { content, stream }, 4);
    await untilRefused(caller);
    const refused = await chat(caller);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: 'TOO_MANY_ABANDONED_CHATS' });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(500);
    const other = await newCaller();
    expect((await chat(other)).status).toBe(200);
  });

  it('is refused by another process at its next such end', async () => {
    const caller = await newCaller();
    const { port } = await gateway.spawn('api', { API_PORT: '0' });
    const elsewhere = `http://127.0.0.1:${port}`;
    await abandonMany(caller, silent, 3);
    await settledChatsOf(gateway, caller);
    expect((await chat(caller, elsewhere)).status).toBe(200);
    await abandon(caller, silent, elsewhere);
    await untilRefused(caller, elsewhere);
  });

  it('is not one that pays more for its other chats', async () => {
    const caller = await newCaller();
    for (let index = 0; index < 10; index += 1) expect((await chat(caller)).status).toBe(200);
    await abandonMany(caller, silent, 5);
    // What its process has heard of the last one by now would refuse it.
    await sleep(1000);
    expect((await chat(caller)).status).toBe(200);
  });

  it('does not buy it with many cheap ones', async () => {
    const caller = await newCaller();
    for (let index = 0; index < 10; index += 1) expect((await chat(caller)).status).toBe(200);
    const content = `${silent.content} ${'about it '.repeat(1000)}`;
    await abandonMany(caller, { content }, 4);
    await untilRefused(caller);
  });
});
