/**
 * Whole chats that take longer than COMPATIBLE_KEEPALIVE_MS, which is 15 seconds: their responses
 * begin with spaces, which the official clients read on every chat endpoint.
 */
import { describe, expect, it } from 'vitest';
import { command } from '../../platform/database.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';
import { untilAllSettled } from './chat-account.ts';
import { say, useClients } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ env: { COMPATIBLE_KEEPALIVE_MS: '50' }, settled: 'last' });
const clients = useClients(gateway);
const slow = '[[slow:700ms]] a long chat';
const model = 'gpt-4o';

describe('a long answer is read by the official clients', () => {
  it.each<[string, () => Promise<unknown>]>([
    [
      'chat completions',
      async () => {
        const answer = await clients.openai.chat.completions.create({ model, messages: say(slow) });
        return answer.choices[0]?.message.content;
      },
    ],
    [
      'responses',
      async () => (await clients.openai.responses.create({ model, input: slow })).output_text,
    ],
    [
      'embeddings',
      async () => {
        const request = { model: 'text-embedding-3-small', input: [slow] };
        return (await clients.openai.embeddings.create(request)).data[0]?.embedding.length;
      },
    ],
    [
      'messages',
      async () => {
        const request = {
          model,
          max_tokens: 50,
          messages: [{ role: 'user' as const, content: slow }],
        };
        return (await clients.anthropic.messages.create(request)).content[0];
      },
    ],
  ])('%s', async (_name, read) => {
    expect(await read()).toBeTruthy();
    expect(await untilAllSettled(gateway, clients.caller)).toMatchObject([{ state: 'charged' }]);
  });
});

describe('a long answer', () => {
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    postChat(gateway, clients.caller, { path, headers, body });

  it.each([
    ['/chat', { model, messages: say(slow) }],
    ['/chat/completions', { model, messages: say(slow) }],
    ['/responses', { model, input: slow }],
    ['/messages', { model, messages: say(slow), max_tokens: 50 }],
    ['/embeddings', { model: 'text-embedding-3-small', input: [slow] }],
  ])(
    'begins with spaces that proxies pass on, and is kept without them: %s',
    async (path, body) => {
      const key = { 'idempotency-key': `k${path}` };
      const first = await post(path, body, key);
      expect(Object.fromEntries(first.headers)).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
      });
      const text = await first.text();
      expect(text).toMatch(/^ {3,}\{"/);
      const again = await post(path, body, key);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(await again.text()).toBe(text.trimStart());
      expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(1);
    },
  );

  it('that fails late is not valid JSON, and names the error in the format of its endpoint', async () => {
    const failing = say('[[slow:700ms]] [[fail:400]] a chat');
    const response = await post('/messages', { model, messages: failing, max_tokens: 50 });
    const [line = '', body = ''] = (await response.text()).trim().split('\n');
    expect([response.status, line]).toEqual([200, expect.stringMatching(/^[A-Z_]+: .+/)]);
    expect(JSON.parse(body)).toMatchObject({
      type: 'error',
      error: { message: expect.any(String) },
    });
    const request = { model, messages: failing };
    await catchFailure(clients.openai.chat.completions.create(request), SyntaxError);
    const chats = await untilAllSettled(gateway, clients.caller);
    expect(chats.map(({ state }) => state)).toEqual(['released', 'released']);
  });

  it('that is rejected late shows a browser token only the code of the rejection', async () => {
    const poor = await gateway.newCaller({ credits: 0.01 });
    const made = await gateway.call<{ data: { token: string } }>('/api/v1/end-users/ann/tokens', {
      key: poor.key,
      body: {},
    });
    const caller = { ...poor, key: made.body.data.token };
    const body = { model, messages: say('hello'), max_tokens: 4000 };
    // The response begins while the reservation waits for the account.
    const response = await gateway.api.services.pool.transaction(async (transaction) => {
      await transaction.query(
        command`SELECT FROM account WHERE organization_id = ${poor.organizationId} FOR UPDATE`,
      );
      return postChat(gateway, caller, { body });
    });
    const text = await response.text();
    expect(text).toMatch(/^ +INSUFFICIENT_CREDITS: /);
    expect(text).not.toMatch(/"(?:required|available|reserved)"/);
  });

  it('reaches a repeat that waited, which begins with spaces too', async () => {
    const body = { model, messages: say('[[slow:900s]] a repeated long chat') };
    const key = { 'idempotency-key': 'repeated' };
    const first = await post('/chat/completions', body, key);
    const second = await post('/chat/completions', body, key);
    await gateway.sandbox.clearFaults();
    const [text, repeated] = await Promise.all([first.text(), second.text()]);
    expect(repeated).toMatch(/^ +\{"/);
    expect(repeated.trimStart()).toBe(text.trimStart());
    expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(1);
  });
});
