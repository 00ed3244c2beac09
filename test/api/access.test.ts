import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { generateApiKey } from '../../api/identity/key-format.ts';
import { ofCallers, ofOperators, ofProtocols } from '../harness/endpoints.ts';
import { useGateway, type TestGateway } from '../harness/gateway.ts';

const limit = 60;
const gateway = useGateway({ env: { RATE_LIMIT_PER_MINUTE: String(limit) }, settled: 'last' });
/** The base URL of a second API over the same database. */
let other: string;

beforeAll(async () => {
  other = await gateway.secondApi();
});

const newCaller = (options: Partial<Parameters<TestGateway['newCaller']>[0]> = {}) =>
  gateway.newCaller({ credits: 100, ...options });
const auth = (value: string): string[] => [`Authorization: ${value}`];
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** Sends header lines as they are and returns status line and body. */
async function raw(lines: string[], target = '/api/v1/usage'): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    [`GET ${target} HTTP/1.1`, `Host: ${hostname}`, 'Connection: close', ...lines, '', ''].join(
      '\r\n',
    ),
    'latin1',
  );
  let answer = '';
  for await (const chunk of socket.setEncoding('latin1')) answer += String(chunk);
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  return `${head.split('\r\n')[0]} ${body}`;
}

const rejection = 'HTTP/1.1 401 Unauthorized {"error":"Unauthorized"}';

it.each(['bearer', 'BEARER'])('accepts the authentication scheme spelled %s', async (scheme) => {
  const answer = await raw(auth(`${scheme} ${gateway.caller.key}`));
  expect(answer).toMatch(/^HTTP\/1.1 200 OK/);
});

describe('an invalid credential', () => {
  it('gets the same response bytes in every case', async () => {
    const valid = gateway.caller.key;
    const expired = await newCaller();
    await gateway.database.query('UPDATE api_key SET expires_at = now() WHERE id = $1', [
      expired.keyId,
    ]);
    const revoked = await newCaller();
    await gateway.call(`/api/v1/api-keys/${revoked.keyId}`, { method: 'DELETE', key: revoked.key });
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
      ['two spaces', auth(`Bearer  ${valid}`)],
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

  const walked = [...ofCallers, ...ofOperators, ...ofProtocols].map(
    ({ method, requestPath }): [string, string] => [method, requestPath],
  );
  it.each([...walked, ['GET', '/api/v1/usage/'], ['GET', '/api/admin/v1/organizations/']])(
    'gets 401 from %s %s',
    async (method, path) => {
      // A caller's key is not an admin key, and an admin key is not a caller's key.
      const isAdmin = path.startsWith('/api/admin');
      const wrong = isAdmin ? gateway.caller.key : gateway.config.ADMIN_API_KEY;
      for (const headers of [{}, bearer(wrong)]) {
        const answer = await fetch(`${gateway.url}${path}`, { method, headers });
        expect(answer.status).toBe(401);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
        expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
      }
    },
  );
});

describe('a path with a different spelling', () => {
  it.each([
    ['GET', '/API/ADMIN/V1/organizations'],
    ['POST', '/API/admin/v1/organizations'],
    ['GET', '/api/V1/api-keys'],
    ['POST', '/api/V1/studio/image/generate'],
    ['GET', '/api/v1/USAGE'],
    ['GET', '/api/admin/v1/ORGANIZATIONS'],
  ])('gets 404 from %s %s, with and without a key', async (method, path) => {
    for (const key of [null, gateway.caller.key, gateway.config.ADMIN_API_KEY]) {
      const body = method === 'POST' ? { body: {} } : {};
      expect((await gateway.call(path, { method, key, ...body })).status).toBe(404);
    }
  });
});

describe('a revoked key', () => {
  it('is rejected by every process at once, while its running jobs finish', async () => {
    const caller = await newCaller();
    const heir = await gateway.call<{ key: string }>('/api/v1/api-keys', {
      key: caller.key,
      body: { name: 'heir' },
    });
    const job = await gateway.call('/api/v1/studio/image/generate', {
      key: caller.key,
      body: { prompt: 'a lighthouse', async: true },
    });
    expect(job.status).toBe(202);
    const ask = () => fetch(`${other}/api/v1/usage`, { headers: bearer(caller.key) });
    expect((await ask()).status).toBe(200);
    let revokedAtMs = Infinity;
    const revoke = async (): Promise<void> => {
      await sleep(20);
      await gateway.call(`/api/v1/api-keys/${caller.keyId}`, { method: 'DELETE', key: caller.key });
      revokedAtMs = performance.now();
    };
    const revocation = revoke();
    // The statuses of requests that start after the revocation.
    const late: number[] = [];
    while (late.length < 20) {
      const askedAtMs = performance.now();
      const { status } = await ask();
      if (askedAtMs > revokedAtMs + 100) late.push(status);
      await sleep(10);
    }
    await revocation;
    expect(late.filter((status) => status !== 401)).toEqual([]);

    const done = await gateway.untilDone(job.body.data.jobId, heir.body.key);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { state: 'charged' } });
    await gateway.expectSettled();
  });
});

describe('the rate limit', () => {
  it('allows exactly 60 requests a minute across two processes, and sends the rate headers each time', async () => {
    const caller = await newCaller();
    // Requests with an invalid key do not count towards the rate limit of another key.
    await Promise.all(
      Array.from({ length: 20 }, () =>
        fetch(`${other}/api/v1/usage`, { headers: bearer(`${caller.key}0`) }),
      ),
    );
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const base = index % 2 === 0 ? gateway.url : other;
        const answer = await fetch(`${base}/api/v1/usage`, { headers: bearer(caller.key) });
        return {
          status: answer.status,
          header: (name: string) => Number(answer.headers.get(name) ?? 'NaN'),
          requestId: answer.headers.get('x-request-id'),
          body: (await answer.json()) as { error?: string },
          // The clock of the API, in whole seconds, so that the transport time does not matter.
          atMs: Date.parse(answer.headers.get('date') ?? ''),
        };
      }),
    );
    const passed = answers.filter((answer) => answer.status === 200);
    expect(passed).toHaveLength(limit);
    expect(
      passed.map((answer) => answer.header('x-ratelimit-remaining')).toSorted((a, b) => a - b),
    ).toEqual(Array.from({ length: limit }, (_, index) => index));
    for (const answer of answers) {
      expect(answer.header('x-ratelimit-limit')).toBe(limit);
      expect(answer.requestId).toMatch(/./);
      expect(answer.header('x-ratelimit-reset')).toBe(answers[0]?.header('x-ratelimit-reset'));
      expect(answer.header('x-ratelimit-reset')).toBeGreaterThan(answer.atMs / 1000 - 1);
      if (answer.status === 200) continue;
      expect(answer).toMatchObject({
        status: 429,
        body: { error: 'Rate limit exceeded. Please slow down.' },
      });
      expect(answer.header('x-ratelimit-remaining')).toBe(0);
      const waitSeconds = answer.header('retry-after');
      expect(Number.isInteger(waitSeconds)).toBe(true);
      const leftSeconds = answer.header('x-ratelimit-reset') - answer.atMs / 1000;
      expect(Math.abs(waitSeconds - leftSeconds)).toBeLessThanOrEqual(2);
    }
    // Another key of the organization, and polls, have a count of their own.
    const poll = await fetch(`${other}/api/v1/studio/jobs`, { headers: bearer(caller.key) });
    expect(poll.status).toBe(200);
    expect(poll.headers.get('x-ratelimit-limit')).toBe(gateway.env['POLL_RATE_LIMIT_PER_MINUTE']);
  });
});

describe('rejections', () => {
  const generate = '/api/v1/studio/image/generate';
  const error = async (key: string, body: unknown) => {
    const answer = await gateway.call(generate, { key, body });
    return `${answer.status} ${answer.body.error}`;
  };
  const valid = { prompt: 'a lighthouse' };

  it('are checked in this order: rate, permissions, body, credits, window', async () => {
    const poor = await newCaller({ credits: 1, windowCredits: 0, scopes: ['chat'] });
    expect(await error(poor.key, { prompt: 7 })).toBe('403 FORBIDDEN');
    expect(await error(poor.key, { prompt: 'p'.repeat(3_000_000) })).toBe('403 FORBIDDEN');
    const unpaid = await newCaller({ credits: 1, windowCredits: 0 });
    expect(await error(unpaid.key, { prompt: 7 })).toBe('400 INVALID_REQUEST');
    const long = { prompt: 'p'.repeat(3_000_000) };
    expect(await error(unpaid.key, long)).toBe('413 PAYLOAD_TOO_LARGE');
    expect(await error(unpaid.key, valid)).toBe('402 INSUFFICIENT_CREDITS');
    const small = await newCaller({ credits: 100, windowCredits: 1 });
    expect(await error(small.key, valid)).toBe('402 WINDOW_LIMIT_EXCEEDED');
    const late = await newCaller({ credits: 100, windowCredits: 5 });
    expect(await error(late.key, valid)).toBe('200 undefined');
    expect(await error(late.key, valid)).toBe('429 WINDOW_EXHAUSTED');

    await Promise.all(
      Array.from({ length: limit + 1 }, () => gateway.call('/api/v1/usage', { key: poor.key })),
    );
    expect(await error(poor.key, { prompt: 7 })).toBe('429 Rate limit exceeded. Please slow down.');
    await gateway.expectSettled();
  });

  it('apply to every key of a suspended organization until the organization is active again', async () => {
    const caller = await newCaller();
    await gateway.admin(`/organizations/${caller.organizationId}/suspend`, {});
    expect(await error(caller.key, valid)).toBe('403 ORGANIZATION_SUSPENDED');
    for (const path of ['/api/v1/usage', '/api/v1/api-keys', '/api/v1/studio/jobs']) {
      const answer = await gateway.call(path, { key: caller.key });
      expect(`${answer.status} ${answer.body.error}`).toBe('403 ORGANIZATION_SUSPENDED');
    }
    await gateway.admin(`/organizations/${caller.organizationId}/activate`, {});
    expect((await gateway.call('/api/v1/usage', { key: caller.key })).status).toBe(200);
  });

  it('apply to a key without the model', async () => {
    const painter = await newCaller({ allowedModels: ['seedream'] });
    expect(await error(painter.key, valid)).toBe('403 FORBIDDEN');
    expect(await error(painter.key, { ...valid, model: 'no-such' })).toBe('400 UNKNOWN_MODEL');
    expect(await error(painter.key, { ...valid, model: 'seedream' })).toBe('200 undefined');
    await gateway.expectSettled();
  });
});
