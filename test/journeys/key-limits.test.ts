/** Spending limits of keys: set, shown, enforced for Studio and chat, and never exceeded. */
import { describe, expect, it } from 'vitest';
import { say } from '../chat/chat-clients.ts';
import { useGateway, type StudioBody, type TestCaller } from '../harness/gateway.ts';

interface KeyBody extends StudioBody<unknown> {
  key: string;
  keyId: string;
  limit: object | null;
  budget: { used: number } | null;
}

const keysPath = '/api/v1/api-keys';
const imagePrice = 3.9;
const gateway = useGateway({ settled: 'last' });

const createKey = (caller: TestCaller, limit: unknown) =>
  gateway.call<KeyBody>(keysPath, { key: caller.key, body: { name: 'limited', limit } });
const setLimit = (caller: TestCaller, keyId: string, limit: unknown) =>
  gateway.call<KeyBody>(`${keysPath}/${keyId}/limit`, {
    method: 'PUT',
    key: caller.key,
    body: { limit },
  });
const readKey = (key: string) => gateway.call<KeyBody>('/api/v1/key', { key });
const draw = (key: string, prompt = 'a small boat') =>
  gateway.call('/api/v1/studio/image/generate', { key, body: { prompt } });
const chat = (key: string, fields: object = {}, path = '/api/v1/chat') =>
  gateway.call<StudioBody<{ credits: number; most: number }>>(path, {
    key,
    body: { model: 'gpt-4o', messages: say('hello'), max_tokens: 100, ...fields },
  });

describe('a key with a limit', () => {
  it('shows the limit, spends up to it, and is rejected with the limit and the remaining budget', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const limit = { credits: 5, per: 'day' };
    const made = await createKey(caller, limit);
    expect(made).toMatchObject({ status: 200, body: { limit } });
    const { key, keyId } = made.body;
    // A failed job gives its credits back.
    expect((await draw(key, '[[fail-result:500]] a boat')).status).toBe(500);
    expect((await draw(key)).status).toBe(200);
    const tomorrow = new Date();
    tomorrow.setUTCHours(24, 0, 0, 0);
    const resetsAt = tomorrow.toISOString();
    expect((await readKey(key)).body).toMatchObject({
      keyId,
      name: 'limited',
      organizationId: caller.organizationId,
      organizationName: 'Test',
      role: 'owner',
      limit,
      budget: { limit: 5, per: 'day', used: imagePrice, remaining: 1.1, resetsAt },
    });
    const usage = { limit: 5, per: 'day', used: imagePrice, resetsAt };
    expect(await draw(key)).toMatchObject({
      status: 402,
      body: { error: 'KEY_LIMIT_EXCEEDED', required: imagePrice, ...usage },
    });
    // Other keys of the organization can still spend.
    expect((await draw(caller.key)).status).toBe(200);
    expect((await chat(key)).status).toBe(200);
    expect((await chat(key, { max_tokens: 16_000 })).body.error).toBe('KEY_LIMIT_EXCEEDED');
    const list = await gateway.call<{ keys: KeyBody[] }>(keysPath, { key: caller.key });
    const listed = list.body.keys.find((each) => each.keyId === keyId);
    expect(listed).toMatchObject({ limit, budget: { limit: 5 } });
    expect(listed?.budget?.used).toBeGreaterThanOrEqual(imagePrice);
  });

  it('of zero is rejected by every paid endpoint with a clear message', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key } = await gateway.newKey({ limit: { credits: 0, per: 'month' } }, caller.key);
    for (const answer of [await draw(key), await chat(key), await chat(key, { stream: true })]) {
      const message = expect.stringContaining('may not spend any credits');
      expect(answer).toMatchObject({
        status: 402,
        body: { error: 'KEY_LIMIT_EXCEEDED', limit: 0, used: 0, message },
      });
    }
    expect((await gateway.call('/api/v1/models', { key })).status).toBe(200);
  });

  it('gets its remaining budget in a chat estimate', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key } = await gateway.newKey({ limit: { credits: 0.5, per: 'week' } }, caller.key);
    const estimate = await chat(key, { max_tokens: undefined }, '/api/v1/chat/estimate');
    const { credits, most } = estimate.body.data;
    expect(credits).toBe(0.5);
    expect(most).toBeGreaterThan(0.5);
  });
});

describe('PUT /api-keys/{keyId}/limit', () => {
  it('sets, changes and removes the limit at once, and counts the spending of the current period', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key, keyId } = await gateway.newKey({}, caller.key);
    expect((await draw(key)).status).toBe(200);
    const set = await setLimit(caller, keyId, { credits: 4, per: 'month' });
    expect(set).toMatchObject({ status: 200, body: { limit: { credits: 4, per: 'month' } } });
    expect((await draw(key)).body).toMatchObject({ error: 'KEY_LIMIT_EXCEEDED', used: imagePrice });
    expect((await setLimit(caller, keyId, { credits: 8, per: 'month' })).status).toBe(200);
    expect((await draw(key)).status).toBe(200);
    expect((await setLimit(caller, keyId, null)).body.limit).toBeNull();
    expect((await draw(key)).status).toBe(200);
    expect((await readKey(key)).body.budget).toBeNull();
  });

  it.each([
    ['limit.credits', { credits: -1, per: 'day' }],
    ['limit.credits', { credits: 1e10, per: 'day' }],
    ['limit.per', { credits: 1, per: 'hour' }],
    ['limit.also', { credits: 1, per: 'day', also: 1 }],
  ])('rejects %s in %j', async (path, limit) => {
    const { caller } = gateway;
    const answers = [await createKey(caller, limit), await setLimit(caller, caller.keyId, limit)];
    for (const answer of answers) {
      expect(answer.status).toBe(400);
      expect(answer.body.details.map((each) => each.path)).toContain(path);
    }
  });

  it('is recorded as an operator action through PUT /keys/{keyId}/limit', async () => {
    const caller = await gateway.newCaller({ credits: 10 });
    const { key, keyId } = await gateway.newKey({}, caller.key);
    const limit = { credits: 2, per: 'week' };
    const set = await gateway.admin(`/keys/${keyId}/limit`, { limit }, 'PUT');
    expect(set).toMatchObject({ status: 200, body: { data: { limit } } });
    expect((await draw(key)).body.error).toBe('KEY_LIMIT_EXCEEDED');
    const query = 'SELECT action, actor, details FROM admin_action WHERE subject = $1';
    expect(await gateway.database.query(query, [keyId])).toEqual([
      { action: 'key.limit_set', actor: 'olga', details: { limit } },
    ]);
  });
});

it('GET /key works with every key, and returns 401 without a key', async () => {
  const { key } = await gateway.newCaller({ credits: 0, scopes: ['chat'] });
  expect(await readKey(key)).toMatchObject({
    status: 200,
    body: { scopes: ['chat'], limit: null, budget: null },
  });
  expect((await gateway.call('/api/v1/key', { key: null })).status).toBe(401);
});
