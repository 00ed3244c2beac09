/** Idempotency-Key on chat: one key is one chat, charged once, and its response is repeated. */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { untilAllSettled } from './chat-account.ts';
import { say } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

const makeBody = (content: string, more: object = {}) => ({
  model: 'gpt-4o',
  messages: say(content),
  ...more,
});

async function chat(caller: TestCaller, body: object, key: string, path = '/chat') {
  const headers = { 'idempotency-key': key };
  const answer = await postChat(gateway, caller, { path, headers, body });
  return {
    status: answer.status,
    text: await answer.text(),
    replayed: answer.headers.get('idempotent-replayed'),
    type: answer.headers.get('content-type'),
    ignored: answer.headers.get('x-ignored-fields'),
    retryAfter: answer.headers.get('retry-after'),
  };
}

/** Returns the error code in the text of a response, of either format. */
function readCode({ text }: { text: string }): string {
  const { error } = JSON.parse(text);
  return error.code ?? error;
}
const newCaller = () => gateway.newCaller({ credits: 100 });

describe('a repeated chat', () => {
  const chatBody = makeBody('[[words:20]]');
  const unknownToProvider = { model: 'gemini-2.5-flash', prompt_cache_key: 'k', top_z: 1 };
  it.each([
    ['/chat', chatBody],
    ['/chat', { ...chatBody, stream: true }],
    ['/chat/completions', chatBody],
    ['/chat/completions', { ...chatBody, stream: true, stream_options: { include_usage: true } }],
    ['/responses', { model: 'gpt-4o', input: '[[words:20]]' }],
    ['/messages', { ...chatBody, max_tokens: 20 }],
    ['/chat/completions', { ...chatBody, ...unknownToProvider }],
    ['/chat/completions', { ...chatBody, ...unknownToProvider, stream: true }],
    ['/embeddings', { model: 'text-embedding-3-small', input: ['a', 'b'] }],
  ])('receives the same bytes and is charged once: %s, %j', async (path, body) => {
    const caller = await newCaller();
    const first = await chat(caller, body, 'k', path);
    const ignored = 'top_z' in body ? 'top_z, prompt_cache_key' : null;
    expect(first).toMatchObject({ status: 200, replayed: null, ignored });
    const again = await chat(caller, body, 'k', path);
    expect(again).toEqual({ ...first, replayed: 'true' });
    expect(await untilAllSettled(gateway, caller)).toHaveLength(1);
  });

  it('is rejected if its body or its path differs', async () => {
    const caller = await newCaller();
    await chat(caller, makeBody('a'), 'k');
    const other = await chat(caller, makeBody('b'), 'k');
    expect([other.status, readCode(other)]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
    const elsewhere = await chat(caller, makeBody('a'), 'k', '/chat/completions');
    expect([elsewhere.status, readCode(elsewhere)]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
    expect(await untilAllSettled(gateway, caller)).toHaveLength(1);
  });

  it('waits while the first runs, and receives the same response', async () => {
    const caller = await newCaller();
    const body = makeBody('[[slow:900s]] the first of six');
    const first = chat(caller, body, 'k');
    const sent = () => gateway.sandbox.chatRequests('the first of six');
    await expect.poll(sent).toHaveLength(1);
    const repeats = Promise.all(Array.from({ length: 5 }, () => chat(caller, body, 'k')));
    const claims = () =>
      gateway.database.query('SELECT FROM idempotency_claim WHERE organization_id = $1', [
        caller.organizationId,
      ]);
    await expect.poll(claims).toHaveLength(1);
    await gateway.sandbox.clearFaults();
    const { text } = await first;
    for (const repeat of await repeats) {
      expect(repeat).toMatchObject({ status: 200, text, replayed: 'true' });
    }
    expect(await untilAllSettled(gateway, caller)).toHaveLength(1);
  });

  it('is rejected with Retry-After if it is a stream, while the first runs', async () => {
    const caller = await newCaller();
    const body = makeBody('[[slow:900s]] the first stream', { stream: true });
    const first = chat(caller, body, 'k');
    const sent = () => gateway.sandbox.chatRequests('the first stream');
    await expect.poll(sent).toHaveLength(1);
    const repeat = await chat(caller, body, 'k');
    expect([repeat.status, readCode(repeat)]).toEqual([409, 'REQUEST_IN_PROGRESS']);
    expect(Number(repeat.retryAfter)).toBeGreaterThan(0);
    await gateway.sandbox.clearFaults();
    const { text } = await first;
    await expect.poll(async () => (await chat(caller, body, 'k')).text).toBe(text);
  });
});

describe('an Idempotency-Key can be used again', () => {
  it('after a rejection', async () => {
    const caller = await newCaller();
    expect((await chat(caller, makeBody('a', { max_tokens: 0 }), 'k')).status).toBe(400);
    const poor = await gateway.newCaller({ credits: 0 });
    expect((await chat(poor, makeBody('a'), 'k')).status).toBe(402);
    await gateway.operate(`/organizations/${poor.organizationId}/grants`, {
      id: 'more',
      credits: 100,
    });
    expect((await chat(poor, makeBody('a'), 'k')).status).toBe(200);
    expect((await chat(caller, makeBody('a'), 'k')).status).toBe(200);
  });

  it('after a failure without a charge', async () => {
    const caller = await newCaller();
    for (const stream of [false, true]) {
      const body = makeBody('[[fail:500]]', { stream });
      const key = `k-${stream}`;
      expect((await chat(caller, body, key)).status).toBe(500);
      expect((await chat(caller, body, key)).status).toBe(500);
    }
    const chats = await untilAllSettled(gateway, caller);
    expect(chats.map(({ state }) => state)).toEqual(Array.from({ length: 4 }, () => 'released'));
  });
});

it('an Idempotency-Key whose chat was charged without a complete response is rejected, and is never charged again (a broken stream)', async () => {
  const caller = await newCaller();
  const body = makeBody('[[words:20]] [[stream-cut:3]]', { stream: true });
  const broken = await chat(caller, body, 'k');
  expect(broken.text).not.toContain('[DONE]');
  await untilAllSettled(gateway, caller);
  // The charge may precede the answer for ten seconds; the test moves its time into the past.
  expect(readCode(await chat(caller, body, 'k'))).toBe('REQUEST_IN_PROGRESS');
  await gateway.database.query(
    `UPDATE reservation SET settled_at = settled_at - interval '1 minute'
       WHERE organization_id = '${caller.organizationId}'`,
  );
  const again = await chat(caller, body, 'k');
  expect([again.status, readCode(again)]).toEqual([409, 'ANSWER_NOT_KEPT']);
  expect(await untilAllSettled(gateway, caller)).toHaveLength(1);
});
