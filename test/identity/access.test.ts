import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { generateApiKey } from '../../identity/access.ts';
import { callerEndpoints, operatorEndpoints, protocolEndpoints } from '../harness/endpoints.ts';
import { useGateway } from '../harness/gateway.ts';

const limit = 60;
const gateway = useGateway({ env: { RATE_LIMIT_PER_MINUTE: String(limit) }, settled: 'last' });
/** The base URL of a second API over the same database. */
let other: string;

beforeAll(async () => {
  other = await gateway.startSecondApi();
});

const auth = (value: string): string[] => [`Authorization: ${value}`];

/** Sends header lines as they are and returns status line and body. */
async function raw(lines: string[], target = '/api/v1/usage'): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  const request = [`GET ${target} HTTP/1.1`, `Host: ${hostname}`, 'Connection: close', ...lines];
  socket.write(`${request.join('\r\n')}\r\n\r\n`, 'latin1');
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  return `${head.split('\r\n')[0]} ${body}`;
}

const rejection = 'HTTP/1.1 401 Unauthorized {"error":"Unauthorized"}';

it.each(['bearer', 'BEARER'])('accepts the authentication scheme spelled %s', async (scheme) => {
  expect(await raw(auth(`${scheme} ${gateway.caller.key}`))).toMatch(/^HTTP\/1.1 200 OK/);
});

describe('an invalid credential', () => {
  it('gets the same response bytes in every case', async () => {
    const valid = gateway.caller.key;
    const expired = await gateway.newKey();
    await gateway.database.query(
      `UPDATE api_key SET expires_at = now() WHERE id = '${expired.keyId}'`,
    );
    const revoked = await gateway.newKey();
    await gateway.send(`/api/v1/api-keys/${revoked.keyId}`, { method: 'DELETE' });
    const lastWrong = valid.slice(0, -1) + (valid.endsWith('0') ? '1' : '0');
    const cases: [string, string[], string?][] = [
      ['missing', []],
      ['empty', auth('')],
      ['only the scheme', auth('Bearer')],
      ['the scheme and a space', auth('Bearer ')],
      ['no scheme', auth(valid)],
      ['Basic', auth(`Basic ${Buffer.from(`${valid}:`).toString('base64')}`)],
      ['Basic with the bare key', auth(`Basic ${valid}`)],
      ['Token', auth(`Token ${valid}`)],
      ['Digest', auth(`Digest username="${valid}"`)],
      ['a tab', auth(`Bearer\t${valid}`)],
      ['a word after the key', auth(`Bearer ${valid} x`)],
      ['two keys', auth(`Bearer ${valid} ${valid}`)],
      ['two keys with a comma', auth(`Bearer ${valid}, Bearer ${valid}`)],
      ['two headers, both valid', [...auth(`Bearer ${valid}`), ...auth(`Bearer ${valid}`)]],
      ['two headers, the first valid', [...auth(`Bearer ${valid}`), ...auth('Bearer x')]],
      ['two headers, the second valid', [...auth('Bearer x'), ...auth(`Bearer ${valid}`)]],
      ['two headers of two schemes', [...auth('Basic eDp5'), ...auth(`Bearer ${valid}`)]],
      ['quotes', auth(`Bearer "${valid}"`)],
      ['x-api-key', [`X-Api-Key: ${valid}`]],
      ['api-key', [`Api-Key: ${valid}`]],
      ['a proxy header', [`Proxy-Authorization: Bearer ${valid}`]],
      ['a cookie', [`Cookie: api_key=${valid}; authorization=Bearer ${valid}`]],
      ['the query', [], `/api/v1/usage?api_key=${valid}&key=${valid}&access_token=${valid}`],
      ['user info', [], `/api/v1/usage?authorization=Bearer%20${valid}`],
      ['truncated', auth(`Bearer ${valid.slice(0, -1)}`)],
      ['one character more', auth(`Bearer ${valid}0`)],
      ['a wrong checksum', auth(`Bearer ${lastWrong}`)],
      ['another case', auth(`Bearer ${valid.toUpperCase()}`)],
      ['another prefix', auth(`Bearer ${valid.replace('gk_live_', 'gk_test_')}`)],
      ['no prefix', auth(`Bearer ${valid.slice(8)}`)],
      ['only the prefix', auth('Bearer gk_live_')],
      ['the shown prefix', auth(`Bearer ${valid.slice(0, 12)}`)],
      ['the key id', auth(`Bearer ${gateway.caller.keyId}`)],
      ['the admin key', auth(`Bearer ${gateway.config.ADMIN_API_KEY}`)],
      ['10 KB', auth(`Bearer ${'k'.repeat(10_240)}`)],
      ['an encoded NUL', auth(`Bearer ${valid}%00`)],
      ['an encoded line break', auth(`Bearer ${valid}%0d%0aX-Admin: 1`)],
      ['a header injected by CRLF', auth(`Bearer x\r\nX-Forwarded-User: ${valid}`)],
      ['latin-1', auth(`Bearer ${valid.slice(0, -1)}é`)],
      ['SQL', auth(`Bearer ' OR 1=1 --`)],
      ['null', auth('Bearer null')],
      ['JSON', auth(`Bearer {"key":"${valid}"}`)],
      ['a well-formed key that never was', auth(`Bearer ${generateApiKey()}`)],
      ['expired', auth(`Bearer ${expired.key}`)],
      ['revoked', auth(`Bearer ${revoked.key}`)],
    ];
    expect(cases.length).toBeGreaterThanOrEqual(40);
    const answers = await Promise.all(
      cases.map(async ([what, lines, target]) => [what, await raw(lines, target)]),
    );
    expect(Object.fromEntries(answers)).toEqual(
      Object.fromEntries(cases.map(([what]) => [what, rejection])),
    );
    // The same request with the one right header is let in.
    expect(await raw(auth(`Bearer ${valid}`))).toMatch(/^HTTP\/1.1 200 OK /);
    // A raw NUL is invalid HTTP: the parser rejects it before the key is checked.
    expect(await raw(auth(`Bearer ${valid}\0`))).toMatch(/^HTTP\/1.1 400 Bad Request/);
  });

  const walked = [...callerEndpoints, ...operatorEndpoints, ...protocolEndpoints].map(
    ({ method, requestPath }): [string, string] => [method, requestPath],
  );
  it.each([...walked, ['GET', '/api/v1/usage/'], ['GET', '/api/admin/v1/organizations/']])(
    'gets 401 from %s %s',
    async (method, path) => {
      // A caller's key is not an admin key, and an admin key is not a caller's key.
      const isAdmin = path.startsWith('/api/admin');
      for (const key of [null, isAdmin ? gateway.caller.key : gateway.config.ADMIN_API_KEY]) {
        const { status, headers } = await gateway.call(path, { method, key });
        expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
        expect(headers.get('x-request-id')).toMatch(/^req_/);
      }
    },
  );
});

describe('a path with a different spelling', () => {
  it.each([
    ['GET', '/API/ADMIN/V1/organizations'],
    ['POST', '/api/V1/studio/image/generate'],
    ['GET', '/api/v1/USAGE'],
  ])('gets 404 from %s %s, with and without a key', async (method, path) => {
    for (const key of [null, gateway.caller.key, gateway.config.ADMIN_API_KEY]) {
      const body = method === 'POST' ? { body: {} } : {};
      expect((await gateway.call(path, { method, key, ...body })).status).toBe(404);
    }
  });
});

describe('a revoked key', () => {
  it('is rejected by every process at once, while its running jobs finish', async () => {
    const { key, keyId } = await gateway.newKey();
    const jobId = await gateway.startImage({ prompt: 'a lighthouse' }, key);
    const ask = () => gateway.call('/api/v1/usage', { base: other, key });
    expect((await ask()).status).toBe(200);
    let revokedAtMs = Infinity;
    const revoke = async (): Promise<void> => {
      await sleep(20);
      await gateway.send(`/api/v1/api-keys/${keyId}`, { method: 'DELETE' });
      revokedAtMs = performance.now();
    };
    const revocation = revoke();
    // The statuses of requests that start after the revocation.
    const statuses: number[] = [];
    while (statuses.length < 20) {
      const startedAtMs = performance.now();
      const { status } = await ask();
      if (startedAtMs > revokedAtMs + 100) statuses.push(status);
      await sleep(10);
    }
    await revocation;
    expect(statuses.filter((status) => status !== 401)).toEqual([]);

    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { state: 'charged' } });
    await gateway.expectSettled();
  });
});

describe('the rate limit', () => {
  it('allows exactly 60 requests a minute across two processes, and sends the rate headers each time', async () => {
    // The key of a new organization, because a key that another one makes continues its window.
    const { key } = await gateway.newCaller();
    // Requests with an invalid key do not count towards the rate limit of another key.
    await Promise.all(
      Array.from({ length: 20 }, () =>
        gateway.call('/api/v1/usage', { base: other, key: `${key}0` }),
      ),
    );
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const base = index % 2 === 0 ? gateway.url : other;
        const sentAt = Date.now() / 1000;
        const { status, headers, body } = await gateway.call('/api/v1/usage', { base, key });
        const read = (name: string) => Number(headers.get(name) ?? 'NaN');
        return {
          status,
          error: body.error,
          requestId: headers.get('x-request-id'),
          limit: read('x-ratelimit-limit'),
          remaining: read('x-ratelimit-remaining'),
          reset: read('x-ratelimit-reset'),
          retryAfter: read('retry-after'),
          // The database counted the request between these times.
          sentAt,
          receivedAt: Date.now() / 1000,
        };
      }),
    );
    const passed = answers.filter(({ status }) => status === 200);
    expect(passed.map(({ remaining }) => remaining).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: limit }, (_, index) => index),
    );
    for (const answer of answers) {
      const { status, reset, retryAfter, sentAt, receivedAt } = answer;
      const requestId = expect.stringMatching(/./);
      expect(answer).toMatchObject({ limit, requestId, reset: answers[0]?.reset });
      expect(reset).toBeGreaterThan(sentAt - 1);
      if (status === 200) continue;
      const error = 'Rate limit exceeded. Please slow down.';
      expect(answer).toMatchObject({ status: 429, error, remaining: 0 });
      expect(Number.isInteger(retryAfter)).toBe(true);
      expect(retryAfter).toBeGreaterThanOrEqual(reset - receivedAt - 2);
      expect(retryAfter).toBeLessThanOrEqual(reset - sentAt + 2);
    }
    // Polls have a count of their own.
    const poll = await gateway.call('/api/v1/studio/jobs', { base: other, key });
    expect(poll.status).toBe(200);
    expect(poll.headers.get('x-ratelimit-limit')).toBe(gateway.env['POLL_RATE_LIMIT_PER_MINUTE']);
  });
});

describe('rejections', () => {
  const valid = { prompt: 'a lighthouse' };
  const long = { prompt: 'p'.repeat(3_000_000) };
  const ask = async (path: string, key: string, body?: object) => {
    const answer = await gateway.call(path, { key, ...(body && { body }) });
    return `${answer.status} ${answer.body.error}`;
  };
  const generate = (key: string, body: object) => ask('/api/v1/studio/image/generate', key, body);

  it('are checked in this order: rate, permissions, body, credits, window', async () => {
    const unscoped = await gateway.newCaller({ credits: 1, windowCredits: 0, scopes: ['chat'] });
    expect(await generate(unscoped.key, { prompt: 7 })).toBe('403 FORBIDDEN');
    expect(await generate(unscoped.key, long)).toBe('403 FORBIDDEN');
    const poor = await gateway.newCaller({ credits: 1, windowCredits: 0 });
    expect(await generate(poor.key, { prompt: 7 })).toBe('400 INVALID_REQUEST');
    expect(await generate(poor.key, long)).toBe('413 PAYLOAD_TOO_LARGE');
    expect(await generate(poor.key, valid)).toBe('402 INSUFFICIENT_CREDITS');
    const limited = await gateway.newCaller({ windowCredits: 1 });
    expect(await generate(limited.key, valid)).toBe('402 WINDOW_LIMIT_EXCEEDED');
    const exhausted = await gateway.newCaller({ windowCredits: 5 });
    expect(await generate(exhausted.key, valid)).toBe('200 undefined');
    expect(await generate(exhausted.key, valid)).toBe('429 WINDOW_EXHAUSTED');

    await Promise.all(
      Array.from({ length: limit + 1 }, () => gateway.call('/api/v1/usage', { key: unscoped.key })),
    );
    expect(await generate(unscoped.key, { prompt: 7 })).toBe(
      '429 Rate limit exceeded. Please slow down.',
    );
    await gateway.expectSettled();
  });

  it('apply to every key of a suspended organization until the organization is active again', async () => {
    const { key, organizationId } = await gateway.newCaller();
    await gateway.operate(`/organizations/${organizationId}/suspend`, {});
    expect(await generate(key, valid)).toBe('403 ORGANIZATION_SUSPENDED');
    for (const path of ['/api/v1/usage', '/api/v1/key', '/api/v1/studio/jobs'])
      expect(await ask(path, key)).toBe('403 ORGANIZATION_SUSPENDED');
    await gateway.operate(`/organizations/${organizationId}/activate`, {});
    expect(await ask('/api/v1/usage', key)).toBe('200 undefined');
  });

  it('apply to a key without the model', async () => {
    const { key } = await gateway.newCaller({ allowedModels: ['seedream'] });
    expect(await generate(key, valid)).toBe('403 FORBIDDEN');
    expect(await generate(key, { ...valid, model: 'no-such' })).toBe('400 UNKNOWN_MODEL');
    expect(await generate(key, { ...valid, model: 'seedream' })).toBe('200 undefined');
    await gateway.expectSettled();
  });
});
