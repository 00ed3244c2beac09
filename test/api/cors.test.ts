/**
 * Cross-origin requests (CORS): the allowed origins, the headers that a page can read, and
 * preflights that count towards no limit.
 */
import { describe, expect, it } from 'vitest';
import { exposedHeaders } from '../../api/middleware/cors.ts';
import { useGateway } from '../harness/gateway.ts';
import { callerEndpoints } from '../harness/endpoints.ts';
import { drawDisc } from '../harness/media.ts';
import { putFile, signUpload } from '../harness/uploads.ts';

const ourOrigin = 'https://studio.example';
const otherOrigin = 'https://elsewhere.example';

const gateway = useGateway({
  env: { CORS_ORIGINS: `${ourOrigin},http://localhost:5173`, RATE_LIMIT_PER_MINUTE: '20' },
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
const readOrigin = ({ headers }: { headers: Headers }) =>
  headers.get('access-control-allow-origin');

describe('a preflight request', () => {
  it('is answered without a key, with the allowed headers and methods', async () => {
    const { status, headers } = await preflight('/api/v1/studio/image/generate', ourOrigin);
    expect([status, headers.get('access-control-allow-credentials')]).toEqual([204, null]);
    expect(Object.fromEntries(headers)).toMatchObject({
      'access-control-allow-origin': ourOrigin,
      'access-control-allow-headers': 'authorization,content-type,idempotency-key',
      'access-control-allow-methods': expect.stringMatching(/GET.*PUT.*POST.*DELETE/),
      'access-control-max-age': expect.stringMatching(/^[1-9]\d*$/),
      vary: expect.stringContaining('Origin'),
    });
  });

  it('does not count towards the rate limit', async () => {
    const { key } = await gateway.newCaller();
    const readRemaining = async () =>
      (await gateway.call('/api/v1/usage', { key })).headers.get('x-ratelimit-remaining');
    expect(await readRemaining()).toBe('19');
    for (let count = 0; count < 30; count += 1) {
      expect((await preflight('/api/v1/usage', ourOrigin)).status).toBe(204);
    }
    expect(await readRemaining()).toBe('18');
  });

  it('from an origin that is not on the list gets no CORS headers', async () => {
    for (const origin of [
      otherOrigin,
      'null',
      `${ourOrigin}.elsewhere.example`,
      'http://studio.example',
    ]) {
      const answer = await preflight('/api/v1/usage', origin);
      expect([answer.status, readOrigin(answer)]).toEqual([405, null]);
    }
  });

  it('to the operators’ API gets no CORS headers', async () => {
    const answer = await preflight('/api/admin/v1/organizations', ourOrigin);
    expect([answer.status, readOrigin(answer)]).toEqual([405, null]);
  });

  it('is allowed from every origin unless origins are configured', async () => {
    const open = await gateway.startSecondApi({ CORS_ORIGINS: '' });
    const answer = await preflight('/api/v1/usage', otherOrigin, open);
    expect([answer.status, readOrigin(answer)]).toEqual([204, '*']);
  });
});

describe('a page of an allowed origin', () => {
  it('reads responses and errors, and their headers', async () => {
    const ask = (origin: string, key: string | null = gateway.caller.key) =>
      gateway.call('/api/v1/usage', { key, headers: { origin } });
    const good = await ask(ourOrigin);
    expect([good.status, readOrigin(good)]).toEqual([200, ourOrigin]);
    expect(good.headers.get('access-control-expose-headers')).toBe(exposedHeaders.join(','));
    const rejected = await ask(ourOrigin, null);
    expect([rejected.status, readOrigin(rejected)]).toEqual([401, ourOrigin]);
    expect(readOrigin(await ask(otherOrigin))).toBeNull();
    expect(readOrigin(await gateway.call('/api/v1/usage'))).toBeNull();
  });

  it('reads every response header that the OpenAPI description names', () => {
    const named = callerEndpoints.flatMap(({ responses }) =>
      Object.values(responses).flatMap(({ headers }) => Object.keys(headers?.shape ?? {})),
    );
    expect(named.length).toBeGreaterThan(3);
    // OpenAI's client starts a job again if it cannot read the last one.
    expect(exposedHeaders).toEqual(expect.arrayContaining([...named, 'X-Should-Retry']));
  });

  it('reads the stream of a chat', async () => {
    const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'ahoy' }], stream: true };
    const answer = await gateway.call('/api/v1/chat', { headers: { origin: ourOrigin }, body });
    expect([answer.status, readOrigin(answer)]).toEqual([200, ourOrigin]);
    expect(answer.headers.get('content-type')).toContain('event-stream');
  });

  it('uploads to a signed URL, and any page reads the public URL', async () => {
    const png = await drawDisc(8, 8);
    const upload = await signUpload(gateway, { contentType: 'image/png', size: png.length });
    const { uploadUrl, publicUrl, headers } = upload;
    expect((await preflight(new URL(uploadUrl).pathname, ourOrigin)).status).toBe(204);
    const put = (origin: string) => putFile({ ...upload, headers: { ...headers, origin } }, png);
    const taken = await put(ourOrigin);
    expect([taken.status, readOrigin(taken)]).toEqual([200, ourOrigin]);
    expect(readOrigin(await put(otherOrigin))).toBeNull();
    const read = await fetch(publicUrl, { headers: { origin: otherOrigin, range: 'bytes=0-3' } });
    expect([read.status, readOrigin(read)]).toEqual([206, '*']);
    expect(read.headers.get('access-control-expose-headers')).toContain('Content-Range');
    const missing = await fetch(`${publicUrl}0`, { headers: { origin: otherOrigin } });
    expect([missing.status, readOrigin(missing)]).toEqual([404, '*']);
  });
});
