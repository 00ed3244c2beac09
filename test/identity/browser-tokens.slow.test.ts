/**
 * Browser tokens: what they may do, how they end, and that their responses show nothing of the account.
 * test/attacks/tenants.test.ts checks that end users see nothing of each other.
 */
import { describe, expect, it } from 'vitest';
import {
  createBrowserTokens,
  tokensMax,
  type BrowserToken,
} from '../../identity/browser-tokens.ts';
import { useGateway, type Answer, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const prompt = 'a lighthouse';
const image = '/api/v1/studio/image/generate';
const chat = { model: 'gpt-4o', max_tokens: 20, messages: [{ role: 'user', content: 'hello' }] };
type NewToken = BrowserToken & { token: string };

const tokensOf = (endUser: string) => `/api/v1/end-users/${encodeURIComponent(endUser)}/tokens`;
const mint = (endUser: string, options: { key?: string; body?: object } = {}) =>
  gateway.call<{ data: NewToken }>(tokensOf(endUser), { body: {}, ...options });
async function newToken(endUser: string, body: object = {}, key = gateway.caller.key) {
  const answer = await mint(endUser, { body, key });
  expect(answer).toMatchObject({ status: 200 });
  return answer.body.data;
}
const act = (key: string, path: string, body?: object, headers = {}): Promise<Answer> =>
  gateway.call(path, { key, headers, ...(body && { body }) });

describe('a browser token', () => {
  it('starts jobs and chats for its end user, under the key that made it', async () => {
    const { token, ...shown } = await newToken('zoë 7', { maxCredits: 50 });
    expect(token).toMatch(/^gk_user_/);
    expect(shown).toMatchObject({
      endUser: 'zoë 7',
      keyId: gateway.caller.keyId,
      maxCredits: 50,
      spentCredits: 0,
    });
    const started = await act(token, image, { prompt });
    expect(started).toMatchObject({ status: 200, body: { credits: { remaining: null } } });
    const jobId = started.headers.get('x-job-id') ?? '';
    expect((await act(token, `/api/v1/studio/jobs/${jobId}`)).body).toMatchObject({
      data: { jobId, endUser: 'zoë 7', keyId: gateway.caller.keyId, metadata: {} },
      credits: { remaining: null },
    });
    expect((await act(token, '/api/v1/chat', { ...chat, endUser: 'zoë 7' })).status).toBe(200);
    const usage = await gateway.call<{ usage: { credits: number }[] }>(
      `/api/v1/usage?endUser=${encodeURIComponent('zoë 7')}&keyId=${gateway.caller.keyId}`,
    );
    expect(usage.body.usage).toHaveLength(2);
    const listed = await gateway.call<{ data: BrowserToken[] }>(tokensOf('zoë 7'));
    const spentCredits = usage.body.usage.reduce((sum, { credits }) => sum + credits, 0);
    expect(listed.body.data).toEqual([{ ...shown, spentCredits: expect.closeTo(spentCredits, 6) }]);
    const keys = await gateway.call<object>('/api/v1/api-keys');
    expect(JSON.stringify(keys.body)).not.toContain(shown.tokenId);
  });

  it('sends only fields that belong to its end user', async () => {
    const { token } = await newToken('ann');
    const responses = { model: 'gpt-4o', input: 'hello' };
    const sent: [path: string, body: object, field: string, headers?: object][] = [
      [image, { prompt, webhookUrl: 'https://shop.example/' }, 'webhookUrl'],
      [image, { prompt, webhookEvents: ['job.done'] }, 'webhookEvents'],
      [image, { recipe: 'postcard' }, 'recipe'],
      [image, { prompt, endUser: 'bob' }, 'endUser'],
      [image, { prompt }, 'X-End-User', { 'x-end-user': 'bob' }],
      ['/api/v1/images/generations', { prompt, user: 'bob' }, 'user'],
      ['/api/v1/chat', { ...chat, async: true }, 'async'],
      ['/api/v1/chat/completions', { ...chat, user: 'bob' }, 'user'],
      ['/api/v1/chat/completions', { ...chat, safety_identifier: 'bob' }, 'user'],
      ['/api/v1/responses', { ...responses, background: true }, 'background'],
    ];
    for (const [path, body, field, headers] of sent) {
      const answer = await act(token, path, body, headers);
      expect({ field, ...answer }).toMatchObject({ field, status: 403 });
      expect(JSON.stringify(answer.body)).toContain(field);
    }
    const named = await act(token, '/api/v1/chat/completions', { ...chat, user: 'ann' });
    expect(named).toMatchObject({ status: 200, body: { object: 'chat.completion' } });
  });

  it('shows neither balance nor limits of the account when credits or limits are used up', async () => {
    const poor = await gateway.newCaller({ credits: 0.01 });
    const { token } = await newToken('ann', {}, poor.key);
    const numbers = /"(?:required|available|reserved|limit|used|balance|open|details)"/;
    for (const [path, body] of [
      [image, { prompt }],
      ['/api/v1/chat', { ...chat, max_tokens: 4000 }],
    ] as const) {
      const rejected = await act(token, path, body);
      expect(rejected).toMatchObject({ status: 402, body: { error: 'INSUFFICIENT_CREDITS' } });
      expect(JSON.stringify(rejected.body)).not.toMatch(numbers);
    }
    const rich = await gateway.newCaller();
    const limit = { limit: { credits: 0.5, per: 'month' } };
    await gateway.send(`/api/v1/api-keys/${rich.keyId}/limit`, {
      method: 'PUT',
      key: rich.key,
      body: limit,
    });
    const ofLimited = await newToken('ann', {}, rich.key);
    const rejected = await act(ofLimited.token, image, { prompt });
    expect(rejected).toMatchObject({ status: 402, body: { error: 'KEY_LIMIT_EXCEEDED' } });
    expect(JSON.stringify(rejected.body)).not.toMatch(numbers);
    const capped = await newToken('ann', { maxCredits: 0.1 });
    expect(await act(capped.token, image, { prompt })).toMatchObject({
      status: 402,
      body: { error: 'KEY_LIMIT_EXCEEDED' },
    });
    await gateway.send('/api/v1/end-users/kim', { method: 'PUT', body: limit });
    const { token: ofKim } = await newToken('kim');
    // The limit of the end user is its own.
    expect(await act(ofKim, image, { prompt })).toMatchObject({
      status: 402,
      body: { error: 'END_USER_LIMIT_EXCEEDED', limit: 0.5, used: 0 },
    });
  });

  const ends: Record<string, (caller: TestCaller) => Promise<object>> = {
    'revocation of all tokens of its end user': async ({ key }) => {
      const answer = await gateway.call(tokensOf('ann'), { method: 'DELETE', key });
      expect(answer).toMatchObject({ status: 200, body: { data: { endUser: 'ann', revoked: 1 } } });
      return answer;
    },
    'revocation of its maker': ({ key, keyId }) =>
      gateway.call(`/api/v1/api-keys/${keyId}`, { method: 'DELETE', key }),
    'rotation of its maker without overlap': ({ key, keyId }) =>
      gateway.call(`/api/v1/api-keys/${keyId}/rotate`, { key, body: { overlapSeconds: 0 } }),
    'its expiry': ({ organizationId }) =>
      gateway.database.query(
        'UPDATE browser_token SET expires_at = now() WHERE organization_id = $1',
        [organizationId],
      ),
  };

  it('ends at once, and its event streams within seconds', async () => {
    await Promise.all(
      Object.entries(ends).map(async ([what, end]) => {
        const caller = await gateway.newCaller();
        const { token } = await newToken('ann', { expiresInSeconds: 3600 }, caller.key);
        const stream = await fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
          headers: { authorization: `Bearer ${token}` },
        });
        expect(stream.headers.get('content-type')).toContain('text/event-stream');
        await end(caller);
        expect({ what, ...(await act(token, image, { prompt })) }).toMatchObject({
          what,
          status: 401,
          body: { error: 'Unauthorized' },
        });
        for await (const _ of stream.body ?? []) continue;
        const listed = { organizationId: caller.organizationId, endUser: 'ann' };
        expect(await createBrowserTokens(gateway.api.services.pool).list(listed)).toEqual([]);
      }),
    );
  });

  it('has at most the permissions of its maker, and is made once per Idempotency-Key', async () => {
    const maker = await gateway.newCaller({
      scopes: ['keys:write', 'keys:read', 'studio:image', 'studio:read'],
      allowedModels: ['gpt-image-2'],
    });
    const { scopes, allowedModels } = await newToken('ann', {}, maker.key);
    expect({ scopes, allowedModels }).toEqual({
      scopes: ['studio:image', 'studio:read'],
      allowedModels: ['gpt-image-2'],
    });
    for (const [field, body, status] of [
      ['scopes', { scopes: ['chat'] }, 403],
      ['allowedModels', { allowedModels: ['nano-banana-2'] }, 403],
      ['scopes', { scopes: ['keys:write'] }, 400],
      ['expiresInSeconds', { expiresInSeconds: 3601 }, 400],
    ] as const) {
      const rejected = await mint('ann', { body, key: maker.key });
      expect(rejected).toMatchObject({ status });
      expect(JSON.stringify(rejected.body)).toContain(field);
    }
    expect((await mint('*', { key: maker.key })).status).toBe(404);
    const again = { key: maker.key, body: {}, headers: { 'idempotency-key': 'once' } };
    const [one, two] = [await mint('ann', again), await mint('ann', again)];
    expect(two.body).toEqual(one.body);
  });

  it('is one of a limited number for each end user', async () => {
    const { organizationId, keyId, key } = await gateway.newCaller();
    await gateway.database.query(
      `INSERT INTO browser_token (id, organization_id, end_user, key_id, mac, scopes, expires_at)
        SELECT 'tok_full_' || n, $1, 'ann', $2, decode(md5($1 || n), 'hex'), '{chat}', now() + interval '1 hour'
        FROM generate_series(1, $3::int) AS n`,
      [organizationId, keyId, tokensMax],
    );
    const rejected = await mint('ann', { key });
    expect(rejected).toMatchObject({ status: 400, body: { error: 'KEY_QUOTA_REACHED' } });
    expect(await mint('bob', { key })).toMatchObject({ status: 200 });
    // Tokens that ended with their key are not counted.
    const rotated = await gateway.call<{ key: string }>(`/api/v1/api-keys/${keyId}/rotate`, {
      key,
      body: { overlapSeconds: 0 },
    });
    await newToken('ann', {}, rotated.body.key);
  });

  it('uses at most a tenth of the storage of its organization, and 64 open requests', async () => {
    const caller = await gateway.newCaller();
    const { token } = await newToken('ann', {}, caller.key);
    const upload = (key: string) =>
      act(key, '/api/v1/storage/upload-url', { contentType: 'video/mp4' });
    const statuses: number[] = [];
    while (statuses.at(-1) !== 403 && statuses.length < 50)
      statuses.push((await upload(token)).status);
    const { limit, used } = await readStorage(caller);
    expect(used).toBeLessThanOrEqual(limit / 10);
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
    expect(await upload((await newToken('bob', {}, caller.key)).token)).toMatchObject({
      status: 200,
    });
    expect(await upload(caller.key)).toMatchObject({ status: 200 });

    const leave = new AbortController();
    const follow = (key: string) =>
      fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
        headers: { authorization: `Bearer ${key}` },
        signal: leave.signal,
      });
    const streams = await Promise.all(Array.from({ length: 64 }, () => follow(token)));
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await follow(token)).status).toBe(429);
    for (const key of [caller.key, (await newToken('bob', {}, caller.key)).token])
      expect((await follow(key)).status).toBe(200);
    leave.abort();
  });

  async function readStorage({ key }: TestCaller) {
    const { body } = await gateway.call<{ storage: { limit: number; used: number } }>(
      '/api/v1/usage',
      { key },
    );
    return body.storage;
  }
});
