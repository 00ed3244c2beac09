/** Spending limits of keys: set, shown, enforced for Studio and chat, and never exceeded. */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

interface KeyBody {
  key: string;
  keyId: string;
  limit: object | null;
  budget: { used: number } | null;
  message: string;
  details: { path: string }[];
}

const keysPath = '/api/v1/api-keys';
const imagePrice = 3.9;
const gateway = useGateway({ settled: 'last' });

const make = (caller: TestCaller, limit: unknown) =>
  gateway.call<KeyBody>(keysPath, { key: caller.key, body: { name: 'limited', limit } });
const change = (caller: TestCaller, keyId: string, limit: unknown) =>
  gateway.call<KeyBody>(`${keysPath}/${keyId}/limit`, {
    method: 'PUT',
    key: caller.key,
    body: { limit },
  });
const look = (key: string) => gateway.call<KeyBody>('/api/v1/key', { key });
const draw = (key: string, prompt = 'a small boat') =>
  gateway.call('/api/v1/studio/image/generate', { key, body: { prompt } });
const chat = (key: string, fields: object = {}, path = '/api/v1/chat') =>
  gateway.call(path, {
    key,
    body: {
      model: 'gpt-4o',
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 100,
      ...fields,
    },
  });

describe('a key with a limit', () => {
  it('shows the limit, spends up to it, and is rejected with the limit and the remaining budget', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const made = await make(caller, { credits: 5, per: 'day' });
    expect(made.status).toBe(200);
    expect(made.body.limit).toEqual({ credits: 5, per: 'day' });
    const { key } = made.body;
    // A failed job gives its credits back.
    expect((await draw(key, '[[fail-result:500]] a boat')).status).toBe(500);
    expect((await draw(key)).status).toBe(200);
    const tomorrow = new Date();
    tomorrow.setUTCHours(24, 0, 0, 0);
    const resetsAt = tomorrow.toISOString();
    expect((await look(key)).body).toMatchObject({
      keyId: made.body.keyId,
      name: 'limited',
      organizationId: caller.organizationId,
      organizationName: 'Test',
      role: 'owner',
      limit: { credits: 5, per: 'day' },
      budget: { limit: 5, per: 'day', used: imagePrice, remaining: 1.1, resetsAt },
    });
    const rejected = await draw(key);
    expect(rejected.status).toBe(402);
    expect(rejected.body).toMatchObject({
      error: 'KEY_LIMIT_EXCEEDED',
      required: imagePrice,
      limit: 5,
      per: 'day',
      used: imagePrice,
      resetsAt,
    });
    // Other keys of the organization can still spend.
    expect((await draw(caller.key)).status).toBe(200);
    expect((await chat(key)).status).toBe(200);
    expect((await chat(key, { max_tokens: 16_000 })).body.error).toBe('KEY_LIMIT_EXCEEDED');
    const list = await gateway.call<{ keys: KeyBody[] }>(keysPath, { key: caller.key });
    const listed = list.body.keys.find(({ keyId }) => keyId === made.body.keyId);
    expect(listed).toMatchObject({ limit: { credits: 5, per: 'day' }, budget: { limit: 5 } });
    expect(listed?.budget?.used).toBeGreaterThanOrEqual(imagePrice);
  });

  it('of zero is rejected by every paid endpoint with a clear message', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key } = (await make(caller, { credits: 0, per: 'month' })).body;
    for (const answer of [await draw(key), await chat(key), await chat(key, { stream: true })]) {
      expect(answer.status).toBe(402);
      expect(answer.body).toMatchObject({ error: 'KEY_LIMIT_EXCEEDED', limit: 0, used: 0 });
      expect(answer.body.message).toContain('may not spend any credits');
    }
    expect((await gateway.call('/api/v1/models', { key })).status).toBe(200);
  });

  it('gets its remaining budget in a chat estimate', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key } = (await make(caller, { credits: 0.5, per: 'week' })).body;
    const estimate = await chat(key, { max_tokens: undefined }, '/api/v1/chat/estimate');
    const { credits, most } = estimate.body.data as unknown as Record<string, number>;
    expect(credits).toBe(0.5);
    expect(most).toBeGreaterThan(0.5);
  });
});

describe('PUT /api-keys/{keyId}/limit', () => {
  it('sets, changes and removes the limit at once, and counts the spending of the current period', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { key, keyId } = (await make(caller, undefined)).body;
    expect((await draw(key)).status).toBe(200);
    const set = await change(caller, keyId, { credits: 4, per: 'month' });
    expect(set).toMatchObject({ status: 200, body: { limit: { credits: 4, per: 'month' } } });
    expect((await draw(key)).body).toMatchObject({ error: 'KEY_LIMIT_EXCEEDED', used: imagePrice });
    expect((await change(caller, keyId, { credits: 8, per: 'month' })).status).toBe(200);
    expect((await draw(key)).status).toBe(200);
    expect((await change(caller, keyId, null)).body.limit).toBeNull();
    expect((await draw(key)).status).toBe(200);
    expect((await look(key)).body.budget).toBeNull();
  });

  it.each([
    ['limit.credits', { credits: -1, per: 'day' }],
    ['limit.credits', { credits: 1e10, per: 'day' }],
    ['limit.per', { credits: 1, per: 'hour' }],
    ['limit.per', { credits: 1 }],
    ['limit', 'all'],
    ['limit.also', { credits: 1, per: 'day', also: 1 }],
  ])('rejects %s in %j', async (path, limit) => {
    const { caller } = gateway;
    for (const answer of [await make(caller, limit), await change(caller, caller.keyId, limit)]) {
      expect(answer.status).toBe(400);
      expect(answer.body.details.map((each) => each.path)).toContain(path);
    }
  });

  it('is rejected for a limited key, and for a key of another organization', async () => {
    const caller = await gateway.newCaller({ credits: 10 });
    const limited = (await make(caller, { credits: 1, per: 'day' })).body;
    const asLimited = { ...caller, key: limited.key };
    const wider = await change(asLimited, limited.keyId, { credits: 100, per: 'day' });
    expect(wider).toMatchObject({ status: 403, body: { error: 'FORBIDDEN' } });
    expect((await make(asLimited, { credits: 100, per: 'day' })).status).toBe(403);
    const child = (await make(asLimited, undefined)).body;
    expect(child.limit).toEqual({ credits: 1, per: 'day' });
    const stranger = await gateway.newCaller({ credits: 0 });
    expect((await change(stranger, limited.keyId, null)).status).toBe(404);
  });

  it('is recorded as an operator action through PUT /keys/{keyId}/limit', async () => {
    const caller = await gateway.newCaller({ credits: 10 });
    const { key, keyId } = (await make(caller, undefined)).body;
    const admin = gateway.config.ADMIN_API_KEY;
    const why = { actor: 'olga', reason: 'ticket 7' };
    const limit = { credits: 2, per: 'week' };
    const set = await gateway.call<{ data: KeyBody }>(`/api/admin/v1/keys/${keyId}/limit`, {
      method: 'PUT',
      key: admin,
      body: { ...why, limit },
    });
    expect(set).toMatchObject({ status: 200, body: { data: { limit } } });
    expect((await draw(key)).body.error).toBe('KEY_LIMIT_EXCEEDED');
    const [action] = await gateway.database.query(
      `SELECT action, actor, details FROM admin_action WHERE subject = $1`,
      [keyId],
    );
    expect(action).toEqual({ action: 'key.limit_set', actor: 'olga', details: { limit } });
  });
});

describe('GET /key', () => {
  it('works with every key, and returns 401 without a key', async () => {
    const { key } = await gateway.newCaller({ credits: 0, scopes: ['chat'] });
    const { status, body } = await look(key);
    expect(status).toBe(200);
    expect(body).toMatchObject({ scopes: ['chat'], limit: null, budget: null });
    expect((await gateway.call('/api/v1/key', { key: null })).status).toBe(401);
  });
});
