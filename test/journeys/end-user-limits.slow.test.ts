/** Limits of end users over HTTP: each kind of request obeys them, also over two API processes. */
import { describe, expect, it } from 'vitest';
import { createBulkCalls, item } from '../bulk/bulk-calls.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { startFurtherApi } from '../harness/running-gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { untilHolds } from '../harness/until.ts';

interface Shown {
  endUser: string;
  suspended: boolean;
  limit: object | null;
  rateLimit: number | null;
  inherited: string[];
  budget: { used: number; remaining: number; resetsAt: string } | null;
}
interface Body {
  data: Shown;
  error: string;
  message: string;
  details?: { path: string }[];
}

const gateway = useGateway({ settled: 'last' });
const bulk = createBulkCalls(gateway);
const path = '/api/v1/end-users';
const prompt = 'a lighthouse';
const chat = { model: 'gpt-4o', max_tokens: 20, messages: [{ role: 'user', content: 'hello' }] };

const set = ({ key }: TestCaller, endUser: string, body: object) =>
  gateway.call<Body>(`/api/v1/end-users/${encodeURIComponent(endUser)}`, {
    method: 'PUT',
    key,
    body,
  });
const get = async ({ key }: TestCaller, endUser: string) =>
  (await gateway.call<Body>(`${path}/${encodeURIComponent(endUser)}`, { key })).body.data;
const draw = ({ key }: TestCaller, endUser: string, more: object = {}) =>
  gateway.call('/api/v1/studio/image/generate', { key, body: { prompt, endUser, ...more } });
/** Requests of all kinds that reserve credits, for an end user. */
const doors = {
  'a job': (caller: TestCaller, endUser: string) => draw(caller, endUser),
  'an asynchronous job': (caller: TestCaller, endUser: string) =>
    draw(caller, endUser, { async: true }),
  'a pipeline': ({ key }: TestCaller, endUser: string) => {
    const steps = [{ id: 'art', use: 'image/generate', body: { prompt } }];
    return gateway.call('/api/v1/studio/pipelines', { key, body: { steps, endUser } });
  },
  'an image of OpenAI’s API': ({ key }: TestCaller, user: string) =>
    gateway.call('/api/v1/images/generations', { key, body: { prompt, user } }),
  'a chat': ({ key }: TestCaller, endUser: string) =>
    gateway.call('/api/v1/chat', { key, body: { ...chat, endUser } }),
  'a stream': ({ key }: TestCaller, user: string) =>
    gateway.call('/api/v1/chat/completions', { key, body: { ...chat, stream: true, user } }),
  'a chat job': ({ key }: TestCaller, endUser: string) =>
    gateway.call('/api/v1/chat', { key, body: { ...chat, async: true, endUser } }),
  'a response': ({ key }: TestCaller, user: string) =>
    gateway.call('/api/v1/responses', { key, body: { model: 'gpt-4o', input: 'hello', user } }),
  'a message': ({ key }: TestCaller, endUser: string) =>
    gateway.call('/api/v1/messages', { key, body: chat, headers: { 'x-end-user': endUser } }),
  embeddings: ({ key }: TestCaller, user: string) =>
    gateway.call('/api/v1/embeddings', {
      key,
      body: { model: 'text-embedding-3-small', input: 'hello', user },
    }),
};

describe('a limit of an end user', () => {
  it('of 30 credits is not exceeded by 64 parallel requests to two API processes', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    await set(caller, '*', { limit: { credits: 30, per: 'month' } });
    const second = await startFurtherApi(gateway, {});
    try {
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, index) =>
          gateway.call('/api/v1/studio/image/generate', {
            base: index % 2 ? gateway.url : second.url,
            key: caller.key,
            body: { prompt, endUser: 'ann' },
          }),
        ),
      );
      const rejected = answers.filter(({ status }) => status !== 200);
      expect(rejected.every(({ body }) => body.error === 'END_USER_LIMIT_EXCEEDED')).toBe(true);
      // A picture costs 3.9 credits.
      expect(answers.length - rejected.length).toBe(7);
      expect(rejected[0]?.body).toMatchObject({ required: 3.9, limit: 30, per: 'month' });
    } finally {
      await second.close();
    }
    const { budget, inherited } = await get(caller, 'ann');
    expect([budget?.used, budget?.remaining, inherited.length]).toEqual([27.3, 2.7, 3]);
    expect((await draw(caller, 'bob')).status).toBe(200);
    const others = { key: caller.key, body: { prompt } };
    expect((await gateway.call('/api/v1/studio/image/generate', others)).status).toBe(200);
  });

  it.each(Object.entries(doors))('rejects %s, and a suspended end user too', async (_, send) => {
    const caller = await gateway.newCaller({ credits: 1000 });
    await set(caller, 'ann', { limit: { credits: 0, per: 'total' } });
    const over = await send(caller, 'ann');
    expect(over.status, JSON.stringify(over.body)).toBe(402);
    expect(JSON.stringify(over.body)).toContain('budget of this end user is zero');
    await set(caller, 'ann', { suspended: true });
    const suspended = await send(caller, 'ann');
    expect(suspended.status, JSON.stringify(suspended.body)).toBe(403);
    expect(JSON.stringify(suspended.body)).toContain('end user is suspended');
    await set(caller, 'ann', { suspended: false, limit: null, rateLimit: 1 });
    expect([200, 202]).toContain((await send(caller, 'ann')).status);
    const often = await send(caller, 'ann');
    expect(often.status, JSON.stringify(often.body)).toBe(429);
    expect(Number(often.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('fails only the items of its end user in a bulk job', async () => {
    const { caller } = gateway;
    await set(caller, 'bulk-ann', { limit: { credits: 5, per: 'total' }, rateLimit: 1 });
    await set(caller, 'bulk-cid', { suspended: true });
    const of = (endUser: string) => item(prompt, { body: { prompt, endUser } });
    const items = [of('bulk-ann'), of('bulk-ann'), of('bulk-cid'), of('bulk-bob'), of('bulk-ann')];
    const { bulkId } = await bulk.accept({ items, concurrency: 2 });
    expect(await bulk.untilDone(bulkId)).toMatchObject({
      status: 'completed',
      counts: { completed: 2, failed: 3 },
    });
    const results = await bulk.readResults(bulkId);
    expect(results.map(({ error }) => error?.code ?? null).toSorted()).toEqual([
      'END_USER_LIMIT_EXCEEDED',
      'END_USER_LIMIT_EXCEEDED',
      'END_USER_SUSPENDED',
      null,
      null,
    ]);
  });

  it('of all others does not apply to requests that name no end user', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    await set(caller, '*', { limit: { credits: 0, per: 'total' }, rateLimit: 1, suspended: true });
    const { key } = caller;
    for (const body of [{ prompt }, { prompt, endUser: 'ann' }]) {
      const answer = await gateway.call('/api/v1/studio/image/generate', { key, body });
      expect(answer.status).toBe('endUser' in body ? 403 : 200);
    }
    const items = [item(prompt), { use: 'chat', body: chat }];
    const { bulkId } = await bulk.accept({ items }, key);
    expect(await bulk.untilDone(bulkId, key)).toMatchObject({
      status: 'completed',
      counts: { completed: 2, failed: 0 },
    });
  });

  it('counts the chats of a bulk job in the limit, and not as requests per minute', async () => {
    const { caller } = gateway;
    await set(caller, 'bulk-dan', { limit: { credits: 100, per: 'total' }, rateLimit: 1 });
    await set(caller, 'bulk-eve', { suspended: true });
    const items = ['bulk-dan', 'bulk-dan', 'bulk-dan', 'bulk-eve'].map((user) => ({
      use: 'chat/completions',
      body: { ...chat, user },
    }));
    const { bulkId } = await bulk.accept({ items });
    expect(await bulk.untilDone(bulkId)).toMatchObject({
      status: 'completed',
      counts: { completed: 3, failed: 1 },
    });
    const [failed] = (await bulk.readResults(bulkId)).filter(({ error }) => error !== null);
    expect(failed?.error).toMatchObject({ code: 'END_USER_SUSPENDED' });
    expect((await get(caller, 'bulk-dan')).budget?.used).toBeGreaterThan(0);
  });

  it('sends a notice at 80 % and one at 100 %, once a period', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const url = gateway.receiver.at('/end-user');
    const settings = { method: 'PUT', key: caller.key, body: { url } };
    await gateway.send('/api/v1/webhooks/notices', settings);
    await set(caller, '*', { limit: { credits: 8, per: 'month' } });
    await draw(caller, 'ann');
    await sweepOnce(gateway);
    await draw(caller, 'ann');
    await sweepOnce(gateway);
    const near = await gateway.receiver.untilReceived('/end-user', 1);
    expect((await draw(caller, 'ann')).status).toBe(402);
    expect((await draw(caller, 'ann')).status).toBe(402);
    for (let pass = 0; pass < 2; pass += 1) await sweepOnce(gateway);
    const received = await gateway.receiver.untilReceived('/end-user', 2);
    const data = { endUser: 'ann', limit: 8, per: 'month', used: 7.8 };
    expect(near[0]?.body).toMatchObject({ type: 'end_user.limit.near', data });
    expect(received[1]?.body).toMatchObject({ type: 'end_user.limit.reached', data });
    await sweepOnce(gateway);
    await untilHolds(async () => {
      const { body } = await gateway.call<{ notices: { state: string }[] }>(
        '/api/v1/webhooks/notices',
        { key: caller.key },
      );
      expect(body.notices.map(({ state }) => state)).toEqual(['delivered', 'delivered']);
    });
    expect(gateway.receiver.received('/end-user')).toHaveLength(2);
  });
});

describe('/api/v1/end-users', () => {
  it('sets, shows, lists and removes limits, only those of its own organization', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    expect(await get(caller, 'größe/1')).toEqual({
      endUser: 'größe/1',
      suspended: false,
      limit: null,
      rateLimit: null,
      inherited: ['suspended', 'limit', 'rateLimit'],
      budget: null,
    });
    const limit = { credits: 30, per: 'week' };
    expect((await set(caller, 'größe/1', { limit, rateLimit: 7 })).body.data).toMatchObject({
      limit,
      rateLimit: 7,
      inherited: ['suspended'],
      budget: { used: 0, remaining: 30, resetsAt: expect.any(String) },
    });
    expect((await set(caller, 'größe/1', { suspended: true })).body.data).toMatchObject({
      limit,
      rateLimit: 7,
      suspended: true,
      inherited: [],
    });
    expect((await set(caller, '*', { rateLimit: 3 })).body.data).toMatchObject({
      endUser: '*',
      rateLimit: 3,
      inherited: [],
      budget: null,
    });
    await draw(caller, 'ann');
    const list = async (query: string, { key }: TestCaller = caller) =>
      (await gateway.call<{ data: Shown[]; nextCursor: string | null }>(`${path}${query}`, { key }))
        .body;
    expect(await list('?limit=1')).toMatchObject({
      data: [{ endUser: 'ann', rateLimit: 3, inherited: ['suspended', 'limit', 'rateLimit'] }],
      nextCursor: 'ann',
    });
    expect((await list('?cursor=ann')).data).toMatchObject([{ endUser: 'größe/1' }]);
    expect((await list('', await gateway.newCaller())).data).toEqual([]);
    const remove = { method: 'DELETE', key: caller.key };
    const one = `${path}/${encodeURIComponent('größe/1')}`;
    expect((await gateway.call(one, remove)).status).toBe(200);
    expect((await gateway.call(one, remove)).body.error).toBe('NOT_FOUND');
    expect(await get(caller, 'größe/1')).toMatchObject({ rateLimit: 3, suspended: false });
  });

  it.each([
    ['ann', {}, 400],
    ['ann', { limit: { credits: -1, per: 'day' } }, 400],
    ['ann', { limit: { credits: 1, per: 'year' } }, 400],
    ['ann', { rateLimit: 0 }, 400],
    ['ann', { suspended: null }, 400],
    ['x'.repeat(129), { rateLimit: 1 }, 404],
  ])('rejects the change of %s to %j', async (endUser, body, status) => {
    const answer = await set(gateway.caller, endUser, body);
    expect([answer.status, answer.body.error]).toEqual([
      status,
      status === 400 ? 'INVALID_REQUEST' : 'NOT_FOUND',
    ]);
  });
});
