/** Chats as items of bulk jobs: answers, prices, waits for a busy provider, rejected items. */
import { afterEach, describe, expect, it } from 'vitest';
import { readChats } from '../chat/chat-account.ts';
import { sendChat } from '../chat/chat-clients.ts';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';
import { createBulkCalls, path, type Body } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
const { start, post, accept, read, untilDone } = createBulkCalls(gateway);
afterEach(() => gateway.sandbox.clearFaults());

const say = (content: string) => [{ role: 'user', content }];
const model = 'gpt-5-nano';
const chat = (content = 'ahoy', fields: object = {}) => ({
  use: 'chat',
  body: { model, messages: say(content), max_tokens: 50, ...fields },
});
const countCalls = async (): Promise<number> =>
  (await gateway.sandbox.counters())['chatCalls'] ?? 0;

interface Result {
  index: number;
  status: string;
  round: number;
  jobId: string | null;
  chatId: string | null;
  credits: number;
  text: string | null;
  tokens: { input: number; output: number } | null;
  data: Record<string, unknown> | null;
  error: { code: string; message: string } | null;
}

/** Reads the results of a bulk job, in the order of its items. */
async function readResults(bulkId: string, key: string): Promise<Result[]> {
  const response = await fetch(`${gateway.url}${path}/${bulkId}/results`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const lines = (await response.text()).split('\n').filter(Boolean);
  const results = lines.map((line) => JSON.parse(line) as Result);
  return results.toSorted((one, two) => one.index - two.index || one.round - two.round);
}

/** Runs a bulk job of a new caller. */
async function run(body: object, credits = 100) {
  const caller = await gateway.newCaller({ credits });
  const accepted = await accept(body, caller.key);
  const ended = await untilDone(accepted.bulkId, caller.key);
  const results = await readResults(accepted.bulkId, caller.key);
  return { caller, accepted, ended, results, rows: await readChats(gateway, caller) };
}

describe('chats in a bulk job', () => {
  it('are answered in the format of their endpoint, and charged like single chats', async () => {
    const calls = await countCalls();
    const embeddings = { model: 'text-embedding-3-small', input: ['a', 'b'], dimensions: 8 };
    const { caller, accepted, ended, results, rows } = await run({
      items: [
        chat('ahoy', { metadata: { shop: 'own' } }),
        { ...chat(), use: 'chat/completions' },
        { use: 'responses', body: { model, input: 'ahoy', max_output_tokens: 50 } },
        { ...chat('ahoy', { model: 'claude-sonnet-5' }), use: 'messages' },
        { use: 'embeddings', body: embeddings },
        { use: 'image/generate', body: { prompt: 'a lamp' } },
      ],
      metadata: { shop: 'x', team: 'y' },
    });
    expect(ended).toMatchObject({ status: 'completed', counts: { completed: 6 } });
    expect(results.map(({ data }) => data)).toMatchObject([
      { model, content: 'You said: ahoy', finishReason: 'stop' },
      { object: 'chat.completion', choices: [{ message: { content: 'You said: ahoy' } }] },
      { object: 'response', status: 'completed', store: false },
      { type: 'message', content: [{ type: 'text', text: 'You said: ahoy' }] },
      { object: 'list', data: [{ index: 0 }, { index: 1 }] },
      { images: [{}] },
    ]);
    const texts = results.map(({ text }) => text);
    const said = 'You said: ahoy';
    expect(texts).toEqual([said, said, said, said, null, null]);
    expect(rows).toHaveLength(5);
    for (const { chatId, jobId, credits, tokens, data } of results.slice(0, 5)) {
      const row = rows.find(({ id }) => id === chatId);
      expect({ jobId, charged: credits * 1e6 }).toEqual({ jobId: null, charged: row?.charged });
      expect(tokens).toEqual({ input: row?.input_tokens, output: row?.output_tokens });
      expect(data?.['id']).toContain(chatId?.slice(-32));
    }
    expect(results[5]).toMatchObject({ chatId: null, tokens: null, jobId: expect.any(String) });
    const charged = results.reduce((sum, { credits }) => sum + credits * 1e6, 0);
    expect(Math.round(charged)).toBe(Math.round(ended.credits.charged * 1e6));
    expect(ended.credits.charged).toBeLessThan(accepted.credits.estimated);
    // Items are counted with the most that they can be charged.
    const items = await gateway.call<{ data: { price: number }[] }>(
      `${path}/${accepted.bulkId}/items`,
      { key: caller.key },
    );
    const prices = items.body.data.reduce((sum, { price }) => sum + price, 0);
    expect(prices).toBeCloseTo(accepted.credits.estimated, 6);
    expect(await countCalls()).toBe(calls + 5);
    const [metadata] = await gateway.database.query<{ metadata: object }>(
      `SELECT metadata FROM reservation WHERE id = $1`,
      [results[0]?.chatId],
    );
    expect(metadata).toEqual({ metadata: { shop: 'own', team: 'y' } });
  });

  it('wait while their provider is busy, and are sent once it is not', async () => {
    const calls = await countCalls();
    const { ended, results, rows } = await run({
      items: [chat('one [[fail:429x2]]'), chat('two'), chat('three [[fail:529x1]]')],
    });
    expect(ended).toMatchObject({ status: 'completed', counts: { completed: 3, failed: 0 } });
    expect(results.map(({ text, error }) => [text, error])).toEqual([
      ['You said: one', null],
      ['You said: two', null],
      ['You said: three', null],
    ]);
    // Each refused call is a released chat of its own.
    expect(rows.filter(({ state }) => state === 'charged')).toHaveLength(3);
    expect(rows.filter(({ state }) => state === 'released')).toHaveLength(3);
    expect(await countCalls()).toBe(calls + 3);
  });

  it('fail without a charge if the provider rejects them, and can be retried', async () => {
    const { caller, accepted, ended, results } = await run({
      items: [chat('[[answer:context-length-exceeded]]'), chat('[[fail:500x1]] ahoy'), chat()],
    });
    expect(ended).toMatchObject({ status: 'completed', counts: { completed: 1, failed: 2 } });
    expect(results.map(({ error, credits }) => [error?.code, credits > 0])).toEqual([
      ['CONTEXT_LENGTH_EXCEEDED', false],
      ['PROVIDER_ERROR', false],
      [undefined, true],
    ]);
    const retried = await post(accepted.bulkId, 'retry', undefined, caller.key);
    expect(retried.body.data.counts).toMatchObject({ failed: 0 });
    const again = await untilDone(accepted.bulkId, caller.key);
    expect(again).toMatchObject({ counts: { completed: 2, failed: 1 } });
    const rounds = await readResults(accepted.bulkId, caller.key);
    expect(rounds.map(({ round, text }) => [round, text])).toEqual([
      [2, null],
      [2, 'You said: ahoy'],
      [1, 'You said: ahoy'],
    ]);
    expect(new Set(rounds.map(({ chatId }) => chatId)).size).toBe(3);
  });

  it('need the scope and the models of a chat', async () => {
    const scopes = ['chat', 'studio:read'] as const;
    const { key } = await gateway.newCaller({ scopes, allowedModels: [model] });
    const { bulkId } = await accept({ items: [chat()] }, key);
    expect(await untilDone(bulkId, key)).toMatchObject({ counts: { completed: 1 } });
    const pictures = { items: [{ use: 'image/generate', body: { prompt: 'a lamp' } }] };
    const refused = await Promise.all([
      start(pictures, { key }),
      start({ items: [chat('ahoy', { model: 'gpt-4o' })] }, { key }),
      start({ items: [chat('ahoy', { models: ['gpt-4o'] })] }, { key }),
    ]);
    expect(refused.map(({ status, body }) => [status, body.error])).toEqual(
      refused.map(() => [403, 'FORBIDDEN']),
    );
    const studioOnly = await gateway.newCaller({ scopes: ['studio:image', 'studio:read'] });
    const { body } = await start({ items: [chat()] }, { key: studioOnly.key });
    expect(body).toMatchObject({ error: 'FORBIDDEN' });
  });

  it('delay no interactive chat: their provider holds all that an organization may send', async () => {
    const [one, other] = [await gateway.newCaller(), await gateway.newCaller()];
    const held = (count: number) => ({
      items: Array.from({ length: count }, () => chat('[[slow:900s]] held beside a chat')),
      concurrency: 64,
    });
    const untilHeld = (count: number) =>
      untilHolds(async () =>
        expect(await gateway.sandbox.chatTexts('held beside a chat')).toHaveLength(count),
      );
    // The second organization may hold as many as the first leaves free, so the first must hold its half before.
    const bulks = [{ key: one.key, ...(await accept(held(64), one.key)) }];
    await untilHeld(64);
    bulks.push({ key: other.key, ...(await accept(held(8), other.key)) });
    await untilHeld(72);
    for (const caller of [one, other, await gateway.newCaller()]) {
      const { body } = await sendChat(gateway, caller, { model, messages: say('beside') });
      expect(body).toMatchObject({ content: 'You said: beside' });
    }
    for (const { bulkId, key, counts } of bulks)
      expect((await read(bulkId, key)).counts).toMatchObject({ running: counts.total });
    await gateway.sandbox.clearFaults();
    for (const { bulkId, key, counts } of bulks)
      expect((await untilDone(bulkId, key)).counts).toMatchObject({ completed: counts.total });
  });

  it('are not read with the key of another organization', async () => {
    const { accepted } = await run({ items: [chat()] });
    const other = await gateway.newCaller();
    const answer = await gateway.call<Body>(`${path}/${accepted.bulkId}/items`, { key: other.key });
    expect(answer).toMatchObject({ status: 404, body: { error: 'BULK_NOT_FOUND' } });
  });
});

it.each([
  ['an unknown model', chat('ahoy', { model: 'x' }), 'model'],
  ['a stream', chat('ahoy', { stream: true }), 'stream'],
  [
    'a background response',
    { use: 'responses', body: { model, input: 'a', background: true } },
    'background',
  ],
  ['async', chat('ahoy', { async: true }), 'async'],
  ['a stored response', { use: 'responses', body: { model, input: 'a', store: true } }, 'store'],
  ['several answers', { ...chat('ahoy', { n: 2 }), use: 'chat/completions' }, 'n'],
  ['a webhook', chat('ahoy', { webhookUrl: 'https://example.com' }), 'webhookUrl'],
  ['an unknown field', chat('ahoy', { prompt: 'x' }), 'prompt'],
  ['no messages', chat('ahoy', { messages: [] }), 'messages'],
  ['no input', { use: 'responses', body: { model, input: [] } }, 'input'],
  ['too long an answer', chat('ahoy', { max_tokens: 10_000_000 }), 'max_tokens'],
  [
    'too many vectors',
    { use: 'embeddings', body: { model: 'text-embedding-3-small', input: Array(131).fill('a') } },
    'input',
  ],
])('an item with %s is rejected with its path, and nothing starts', async (_, item, field) => {
  const calls = await countCalls();
  const caller = await gateway.newCaller();
  const { status, body } = await start({ items: [chat(), item] }, { key: caller.key });
  expect({ status, error: body.error }).toEqual({ status: 400, error: 'INVALID_REQUEST' });
  expect(body.details).toMatchObject([{ path: `items.1.body.${field}` }]);
  expect(await readChats(gateway, caller)).toEqual([]);
  expect(await countCalls()).toBe(calls);
});
