/** Errors of the gateway in OpenAI’s client: the retries, their delays, and their charges. */
import OpenAI, { APIConnectionTimeoutError, APIError, InternalServerError } from 'openai';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { chatsOf, settledChatsOf } from './chat-account.ts';
import { say } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });

/** Makes a client with its default of two retries, and counts its requests. */
function clientOf(caller: TestCaller, options: { maxRetries?: number; timeout?: number } = {}) {
  const sent: { at: number; attempt: string | null }[] = [];
  const client = new OpenAI({
    apiKey: caller.key,
    baseURL: `${gateway.url}/api/v1`,
    ...options,
    fetch: async (url, init) => {
      const attempt = new Headers(init?.headers).get('x-stainless-retry-count');
      sent.push({ at: performance.now(), attempt });
      return fetch(url, init);
    },
  });
  return { client, sent };
}

const newCaller = (credits = 100): Promise<TestCaller> => gateway.newCaller({ credits });
const send = (client: OpenAI, content: string) =>
  client.chat.completions.create({ model: 'gpt-4o', messages: say(content) });
let serial = 0;
/** Returns the marker of a fault that occurs this many times, counted for this text alone. */
const once = (fault: string): string => `[[${fault}]] question ${(serial += 1)} of ${Date.now()}`;

describe('OpenAI’s client retries', () => {
  it.each(['fail:500x1', 'fail:503x2', 'reset-before-accept:x1'])(
    'after %s, and only the successful call is charged',
    async (fault) => {
      const caller = await newCaller();
      const { client, sent } = clientOf(caller);
      const answer = await send(client, once(fault));
      expect(answer.choices[0]?.message.content).toContain('You said: question');
      expect(sent.length).toBeGreaterThan(1);
      const rows = await settledChatsOf(gateway, caller);
      expect(rows).toHaveLength(sent.length);
      expect(rows.slice(0, -1).every(({ state }) => state === 'released')).toBe(true);
      expect(rows.at(-1)).toMatchObject({ state: 'charged', counted_by: 'provider' });
    },
  );

  it('when the provider is busy, after its Retry-After', async () => {
    const caller = await newCaller();
    const { client, sent } = clientOf(caller);
    await send(client, once('fail:429x1;retry-after=1'));
    expect(sent.map(({ attempt }) => attempt)).toEqual(['0', '1']);
    const [first, second] = sent;
    // The client's timer may end a few milliseconds early.
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(950);
  });

  it('a stream that failed before its first token', async () => {
    const caller = await newCaller();
    const { client, sent } = clientOf(caller);
    const stream = await client.chat.completions.create({
      model: 'gpt-4o',
      messages: say(once('fail:500x1')),
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toContain('You said: question');
    expect(sent).toHaveLength(2);
  });

  it('three times in all, and then throws its error class', async () => {
    const caller = await newCaller();
    const { client, sent } = clientOf(caller);
    const failure: unknown = await send(client, '[[fail:500]] always').catch((error) => error);
    expect(failure).toBeInstanceOf(InternalServerError);
    expect(failure).toMatchObject({ status: 500, code: 'PROVIDER_ERROR' });
    expect(sent).toHaveLength(3);
    const rows = await settledChatsOf(gateway, caller);
    expect(rows.map(({ state }) => state)).toEqual(['released', 'released', 'released']);
  });
});

describe('OpenAI’s client does not retry', () => {
  it.each([
    ['a wrong field', 400, { model: 'gpt-4o', max_tokens: -1 }],
    ['an unknown model', 400, { model: 'gpt-none' }],
    ['too few credits', 402, { model: 'gpt-4o', max_tokens: 16_000 }],
  ])('%s (%i)', async (_name, status, extra) => {
    const caller = await newCaller(1);
    const { client, sent } = clientOf(caller);
    const failure: unknown = await client.chat.completions
      .create({ messages: say('x'), ...extra })
      .catch((error) => error);
    expect(failure).toBeInstanceOf(APIError);
    expect(failure).toMatchObject({ status });
    expect(sent).toHaveLength(1);
    expect(await chatsOf(gateway, caller)).toEqual([]);
  });

  it('a response that it stopped waiting for, which is charged once', async () => {
    const caller = await newCaller();
    const { client, sent } = clientOf(caller, { maxRetries: 0, timeout: 500 });
    const failure: unknown = await send(client, '[[slow:1500ms]] late').catch((error) => error);
    expect(failure).toBeInstanceOf(APIConnectionTimeoutError);
    expect(sent).toHaveLength(1);
    expect(await settledChatsOf(gateway, caller)).toMatchObject([
      { state: 'charged', counted_by: 'provider' },
    ]);
  });
});
