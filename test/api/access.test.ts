import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newApiKey } from '../../api/identity/key-format.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway({ env: { RATE_LIMIT_PER_MINUTE: '60' } });
});
afterAll(() => gateway.close());

const path = '/api/v1/studio/image/generate';

describe('a request without a good key', () => {
  it.each([
    ['none', {}],
    ['another scheme', { authorization: 'Basic abc' }],
    ['a lower-case scheme', { authorization: `bearer ${newApiKey()}` }],
    ['an empty key', { authorization: 'Bearer ' }],
    ['an unknown key', { authorization: `Bearer ${newApiKey()}` }],
    ['a bad checksum', { authorization: `Bearer ${newApiKey().slice(0, -1)}_` }],
    ['a long key', { authorization: `Bearer ${'x'.repeat(8000)}` }],
    ['another header', { 'x-api-key': newApiKey() }],
  ])('is answered 401 with the same bytes: %s', async (_name, headers) => {
    const answer = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: '{"prompt":',
    });
    expect(answer.status).toBe(401);
    expect(await answer.text()).toBe('{"error":"Unauthorized"}');
    expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
  });

  it('is refused when expired or revoked', async () => {
    const caller = await gateway.newCaller({ credits: 1, expiresAtMs: Date.now() + 300 });
    const ask = () => gateway.call('/api/v1/studio/jobs', { key: caller.key });
    expect((await ask()).status).toBe(200);
    await expect.poll(async () => (await ask()).status, { interval: 100 }).toBe(401);
    const other = await gateway.newCaller({ credits: 1 });
    await gateway.database.query('UPDATE api_key SET revoked_at = now() WHERE id = $1', [
      other.keyId,
    ]);
    expect((await gateway.call('/api/v1/studio/jobs', { key: other.key })).status).toBe(401);
  });
});

describe('the rate limit', () => {
  it('lets 60 requests a minute pass, of all API processes together, and says what is left', async () => {
    const { port } = await gateway.spawn('api', { API_PORT: '0', API_WORKER: 'false' });
    // Start right after a minute begins: a window must not end in the middle of the count.
    const untilMinuteMs = 60_000 - (Date.now() % 60_000);
    if (untilMinuteMs < 8000) await new Promise((resolve) => setTimeout(resolve, untilMinuteMs));
    const caller = await gateway.newCaller({ credits: 1 });
    const urls = [gateway.url, `http://127.0.0.1:${port}`];
    const answers = await Promise.all(
      Array.from({ length: 90 }, (_, index) =>
        fetch(`${urls[index % 2]}${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${caller.key}` },
        }),
      ),
    );
    const refused = answers.filter((answer) => answer.status === 429);
    expect(answers.filter((answer) => answer.status === 415)).toHaveLength(60);
    expect(refused).toHaveLength(30);
    const [first] = refused;
    expect(await first?.json()).toMatchObject({ error: 'Rate limit exceeded. Please slow down.' });
    for (const answer of answers) {
      expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
      const remaining = Number(answer.headers.get('x-ratelimit-remaining'));
      expect(remaining).toBeGreaterThanOrEqual(0);
      expect(remaining).toBeLessThan(60);
      const resetInSeconds = Number(answer.headers.get('x-ratelimit-reset')) - Date.now() / 1000;
      expect(resetInSeconds).toBeLessThanOrEqual(60);
      if (answer.status === 429) {
        const wait = Number(answer.headers.get('retry-after'));
        expect(Math.abs(wait - resetInSeconds)).toBeLessThanOrEqual(2);
      }
    }
    // Polls have a bucket of their own.
    const poll = await gateway.call('/api/v1/studio/jobs', { key: caller.key });
    expect(poll.status).toBe(200);
  });
});

describe('what a key may not do', () => {
  it('is answered 403, after the body is known to be right', async () => {
    const reader = await gateway.newCaller({ credits: 100, scopes: ['studio:read'] });
    const wrong = await gateway.call(path, { key: reader.key, body: { prompt: 'x' } });
    expect(wrong.status).toBe(400);
    const right = await gateway.call(path, { key: reader.key, body: { prompt: 'a garden' } });
    expect(right.status).toBe(403);
    expect(right.body.error).toBe('FORBIDDEN');
  });

  it('includes models that it is not allowed', async () => {
    const caller = await gateway.newCaller({ credits: 100, allowedModels: ['seedream'] });
    const answer = await gateway.call(path, { key: caller.key, body: { prompt: 'a garden' } });
    expect(answer.status).toBe(403);
  });

  it('is everything when the organization is suspended, or the member a viewer', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    await gateway.database.query(`UPDATE organization SET status = 'suspended' WHERE id = $1`, [
      caller.organizationId,
    ]);
    const ask = () => gateway.call(path, { key: caller.key, body: { prompt: 'a garden' } });
    expect((await ask()).body.error).toBe('ORGANIZATION_SUSPENDED');
    await gateway.database.query(`UPDATE organization SET status = 'active' WHERE id = $1`, [
      caller.organizationId,
    ]);
    await gateway.database.query(`UPDATE member SET role = 'viewer' WHERE id = $1`, [
      caller.memberId,
    ]);
    expect((await ask()).body.error).toBe('FORBIDDEN');
  });
});
