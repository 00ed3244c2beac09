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
      {
        action: 'key.limit_set',
        actor: 'olga',
        details: { limit, rateLimit: null, jobsMax: null },
      },
    ]);
  });
});

describe('the jobs that a key or an organization may have open', () => {
  const setLimits = (caller: TestCaller, keyId: string, body: object) =>
    gateway.call<KeyBody>(`${keysPath}/${keyId}/limit`, { method: 'PUT', key: caller.key, body });
  const start = (key: string, fields: object = {}, headers?: Record<string, string>) =>
    gateway.call('/api/v1/studio/image/generate', {
      key,
      body: { prompt: '[[slow:60s]] a raft', async: true, ...fields },
      ...(headers && { headers }),
    });
  const cancelAll = async (key: string, jobIds: readonly string[]) => {
    for (const jobId of jobIds) {
      await gateway.untilAccepted(jobId);
      await gateway.cancel(jobId, key);
      await gateway.untilDone(jobId, key);
    }
  };
  const jobsOf = (answers: readonly { body: StudioBody<{ jobId: string }> }[]) =>
    answers.flatMap(({ body }) => (body.data ? [body.data.jobId] : []));

  it.each(['key', 'organization'])(
    'are exactly those of the limit of the %s, however many requests come at once',
    async (limitOf) => {
      const caller = await gateway.newCaller({ credits: 1000 });
      // Keys that share the limit count together: a rotated one, and one that the limited key made.
      const { key, keyId } = await gateway.newKey({}, caller.key);
      const limits = { jobsMax: 3 };
      const path = `/organizations/${caller.organizationId}/limits`;
      const set =
        limitOf === 'key'
          ? await setLimits(caller, keyId, limits)
          : await gateway.admin(path, limits, 'PUT');
      expect(set.status).toBe(200);
      const child = await gateway.newKey({}, key);
      const rotated = await gateway.call<KeyBody>(`${keysPath}/${keyId}/rotate`, {
        method: 'POST',
        key: caller.key,
      });
      const keys = [key, child.key, rotated.body.key];
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) => start(keys[index % 3] ?? '')),
      );
      const accepted = answers.filter(({ status }) => status === 202);
      const rejected = answers.filter(({ status }) => status !== 202);
      expect(accepted).toHaveLength(3);
      for (const { status, headers, body } of rejected) {
        expect(status).toBe(429);
        expect(body).toMatchObject({ error: 'JOBS_MAX_REACHED', limitOf, limit: 3, open: 3 });
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      }
      const shown = await readKey(rotated.body.key);
      expect(shown.body).toMatchObject({
        jobsMax: limitOf === 'key' ? 3 : null,
        jobsOpen: expect.any(Number),
        organizationLimits: { jobsMax: limitOf === 'key' ? null : 3, jobsOpen: 3 },
      });
      // Another key of the organization is limited only by the organization.
      const other = await start(caller.key);
      expect(other.status).toBe(limitOf === 'key' ? 202 : 429);
      await cancelAll(caller.key, jobsOf([...accepted, other] as never));
      expect((await draw(key)).status).toBe(200);
    },
  );

  it('are not reduced by a lower limit, and repeats get their job', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const { key, keyId } = await gateway.newKey({ jobsMax: 2 }, caller.key);
    const named = { 'idempotency-key': 'first' };
    const first = await start(key, {}, named);
    const second = await start(key);
    expect([first.status, second.status]).toEqual([202, 202]);
    expect((await setLimits(caller, keyId, { jobsMax: 1 })).body).toMatchObject({ jobsMax: 1 });
    const again = await start(key, {}, named);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(jobsOf([again, first] as never)).toEqual([...jobsOf([first, first] as never)]);
    // A rejected request leaves its Idempotency-Key free.
    const late = { 'idempotency-key': 'late' };
    expect((await start(key, {}, late)).body).toMatchObject({ limit: 1, open: 2 });
    expect((await chat(key)).status).toBe(200);
    expect((await setLimits(caller, keyId, { jobsMax: null })).body.limit).toBeNull();
    const third = await start(key, {}, late);
    expect(third).toMatchObject({ status: 202, headers: expect.anything() });
    await cancelAll(key, jobsOf([first, second, third] as never));
  });

  it.each([
    ['rateLimit', 0],
    ['rateLimit', -1],
    ['rateLimit', 1.5],
    ['rateLimit', 1e9],
    ['rateLimit', '60'],
    ['jobsMax', 0],
    ['jobsMax', -3],
    ['jobsMax', 1e15],
    ['jobsMax', true],
  ])('cannot be limited by %s %j, neither by users nor by operators', async (field, value) => {
    const { caller } = gateway;
    const limits = { [field]: value };
    const organization = `/organizations/${caller.organizationId}/limits`;
    const created = { name: 'limited', ...limits };
    for (const { status, body } of [
      await gateway.call(keysPath, { key: caller.key, body: created }),
      await setLimits(caller, caller.keyId, limits),
      await gateway.admin(`/keys/${caller.keyId}/limit`, limits, 'PUT'),
      await gateway.admin(organization, limits, 'PUT'),
      await gateway.admin('/organizations', created),
    ]) {
      expect(status).toBe(400);
      expect(body.details).toMatchObject([{ path: field }]);
    }
  });

  it('are set by operators too, and a key with any limit may not change limits', async () => {
    const caller = await gateway.newCaller({ credits: 10 });
    const organization = `/organizations/${caller.organizationId}/limits`;
    expect((await gateway.admin(organization, {}, 'PUT')).status).toBe(400);
    expect((await setLimits(caller, caller.keyId, {})).status).toBe(400);
    await gateway.operate(organization, { jobsMax: 4, rateLimit: 900 }, 'PUT');
    const cleared = await gateway.admin(organization, { jobsMax: null }, 'PUT');
    expect(cleared.body.data).toMatchObject({ jobsMax: null, rateLimit: 900 });
    const { key, keyId } = await gateway.newKey({ jobsMax: 2 }, caller.key);
    const set = await gateway.admin(`/keys/${keyId}/limit`, { rateLimit: 50 }, 'PUT');
    expect(set.body.data).toMatchObject({ rateLimit: 50, jobsMax: 2, limit: null });
    for (const answer of [
      await setLimits({ ...caller, key }, keyId, { jobsMax: 9 }),
      await setLimits({ ...caller, key }, caller.keyId, { rateLimit: 9 }),
      await gateway.call(keysPath, { key, body: { name: 'mine', rateLimit: 1 } }),
      await gateway.call(`${keysPath}/${caller.keyId}/rotate`, { method: 'POST', key }),
    ]) {
      expect(answer).toMatchObject({ status: 403, body: { error: 'FORBIDDEN' } });
    }
    await gateway.operate(`/keys/${keyId}/limit`, { rateLimit: 1 }, 'PUT');
    const rejected = await readKey(key);
    expect(rejected.headers.get('x-ratelimit-limit')).toBe('1');
    expect(rejected).toMatchObject({
      status: 429,
      body: { error: 'Rate limit exceeded. Please slow down.' },
    });
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
