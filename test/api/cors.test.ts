/**
 * Cross-origin requests (CORS): the allowed origins, the headers that a page can read, and
 * preflights that count towards no limit.
 */
import { describe, expect, it } from 'vitest';
import { exposedHeaders } from '../../api/middleware/cors.ts';
import { useGateway } from '../harness/gateway.ts';
import { callerEndpoints } from '../harness/endpoints.ts';
import { drawDisc } from '../harness/media.ts';
import { signUpload } from '../harness/uploads.ts';

const ours = 'https://studio.example';
const theirs = 'https://elsewhere.example';

const gateway = useGateway({
  env: { CORS_ORIGINS: `${ours},http://localhost:5173`, RATE_LIMIT_PER_MINUTE: '20' },
  settled: 'last',
});

const preflight = (path: string, origin: string, base = gateway.url): Promise<Response> =>
  fetch(base + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,idempotency-key',
    },
  });
const allowed = ({ headers }: { headers: Headers }) => headers.get('access-control-allow-origin');

describe('a preflight request', () => {
  it('is answered without a key, with the allowed headers and methods', async () => {
    const { status, headers } = await preflight('/api/v1/studio/image/generate', ours);
    expect([status, headers.get('access-control-allow-credentials')]).toEqual([204, null]);
    expect(Object.fromEntries(headers)).toMatchObject({
      'access-control-allow-origin': ours,
      'access-control-allow-headers': 'authorization,content-type,idempotency-key',
      'access-control-allow-methods': expect.stringMatching(/GET.*PUT.*POST.*DELETE/),
      'access-control-max-age': expect.stringMatching(/^[1-9]\d*$/),
      vary: expect.stringContaining('Origin'),
    });
  });

  it('does not count towards the rate limit', async () => {
    const { key } = await gateway.newCaller();
    const left = async () =>
      (await gateway.call('/api/v1/usage', { key })).headers.get('x-ratelimit-remaining');
    expect(await left()).toBe('19');
    for (let count = 0; count < 30; count += 1) {
      expect((await preflight('/api/v1/usage', ours)).status).toBe(204);
    }
    expect(await left()).toBe('18');
  });

  it('from an origin that is not on the list gets no CORS headers', async () => {
    for (const origin of [theirs, 'null', `${ours}.elsewhere.example`, 'http://studio.example']) {
      const answer = await preflight('/api/v1/usage', origin);
      expect([answer.status, allowed(answer)]).toEqual([405, null]);
    }
  });

  it('to the operators’ API gets no CORS headers', async () => {
    const answer = await preflight('/api/admin/v1/organizations', ours);
    expect([answer.status, allowed(answer)]).toEqual([405, null]);
  });

  it('is allowed from every origin unless origins are configured', async () => {
    const open = await gateway.startSecondApi({ CORS_ORIGINS: '' });
    const answer = await preflight('/api/v1/usage', theirs, open);
    expect([answer.status, allowed(answer)]).toEqual([204, '*']);
  });
});

describe('a page of an allowed origin', () => {
  it('reads responses and errors, and their headers', async () => {
    const ask = (origin: string, key: string | null = gateway.caller.key) =>
      gateway.call('/api/v1/usage', { key, headers: { origin } });
    const good = await ask(ours);
    expect([good.status, allowed(good)]).toEqual([200, ours]);
    expect(good.headers.get('access-control-expose-headers')).toBe(exposedHeaders.join(','));
    const rejected = await ask(ours, null);
    expect([rejected.status, allowed(rejected)]).toEqual([401, ours]);
    expect(allowed(await ask(theirs))).toBeNull();
    expect(allowed(await gateway.call('/api/v1/usage'))).toBeNull();
  });

  it('reads every response header that the OpenAPI description names', () => {
    const named = callerEndpoints.flatMap(({ answers }) =>
      Object.values(answers).flatMap(({ headers }) => Object.keys(headers?.shape ?? {})),
    );
    expect(named.length).toBeGreaterThan(3);
    expect(exposedHeaders).toEqual(expect.arrayContaining(named));
  });

  it('reads a chat as it streams', async () => {
    const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'ahoy' }], stream: true };
    const answer = await gateway.call('/api/v1/chat', { headers: { origin: ours }, body });
    expect([answer.status, allowed(answer)]).toEqual([200, ours]);
    expect(answer.headers.get('content-type')).toContain('event-stream');
  });

  it('uploads to a signed URL, and any page reads the public URL', async () => {
    const png = await drawDisc(8, 8);
    const upload = { contentType: 'image/png', size: png.length };
    const { uploadUrl, publicUrl, headers } = await signUpload(gateway, upload);
    expect((await preflight(new URL(uploadUrl).pathname, ours)).status).toBe(204);
    const put = (origin: string) =>
      fetch(uploadUrl, {
        method: 'PUT',
        headers: { ...headers, origin },
        body: new Uint8Array(png),
      });
    const taken = await put(ours);
    expect([taken.status, allowed(taken)]).toEqual([200, ours]);
    expect(allowed(await put(theirs))).toBeNull();
    const read = await fetch(publicUrl, { headers: { origin: theirs, range: 'bytes=0-3' } });
    expect([read.status, allowed(read)]).toEqual([206, '*']);
    expect(read.headers.get('access-control-expose-headers')).toContain('Content-Range');
    const missing = await fetch(`${publicUrl}0`, { headers: { origin: theirs } });
    expect([missing.status, allowed(missing)]).toEqual([404, '*']);
  });
});
