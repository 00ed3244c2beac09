/**
 * Console sessions over HTTP: the routes that a cookie opens, the origins that may use it, and its
 * end.
 */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { callerEndpoints, operatorEndpoints, protocolEndpoints } from '../harness/endpoints.ts';

const gateway = useGateway({ settled: 'last' });

/** Returns the cookies of a response as a browser sends them back. */
const readCookies = ({ headers }: { headers: Headers }): string =>
  headers
    .getSetCookie()
    .map((cookie) => cookie.split(';')[0])
    .join('; ');

const begin = ({ key }: TestCaller) => gateway.call('/api/v1/session', { method: 'POST', key });
const beginAsOperator = (at = gateway) =>
  at.call('/api/admin/v1/session', { key: at.config.ADMIN_API_KEY, body: { actor: 'olga' } });

/** Returns a new caller and the cookie of its session. */
async function newSession() {
  const caller = await gateway.newCaller({ credits: 5 });
  return { ...caller, cookie: readCookies(await begin(caller)) };
}

/** Sends a request with nothing but cookies, and what a page's browser adds. */
const send = (
  cookie: string,
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: unknown } = {},
) =>
  gateway.call<Record<string, unknown>>(path, {
    key: null,
    ...options,
    headers: { cookie, ...options.headers },
  });

it('a session represents its key, does not contain it, and is hidden from scripts and other sites', async () => {
  const caller = await gateway.newCaller({ credits: 5 });
  const begun = await begin(caller);
  expect(begun.status).toBe(201);
  const [cookie, ...others] = begun.headers.getSetCookie();
  expect(others).toEqual([]);
  expect(cookie).toMatch(/; path=\/api\/v1;.*; samesite=strict; httponly$/);
  expect(cookie).not.toContain(caller.key);
  const who = await send(readCookies(begun), '/api/v1/key');
  expect(who.body).toMatchObject({ keyId: caller.keyId, organizationId: caller.organizationId });
  expect(who.headers.get('x-ratelimit-limit')).not.toBeNull();
  // Signing in again ends this session.
  const headers = { cookie: readCookies(begun) };
  await gateway.send('/api/v1/session', { method: 'POST', key: caller.key, headers });
  expect((await send(headers.cookie, '/api/v1/key')).status).toBe(401);
});

it("a session allows changes only from the gateway's own pages", async () => {
  const { cookie } = await newSession();
  const change = (origin?: string) =>
    send(cookie, '/api/v1/api-keys', {
      method: 'POST',
      body: { name: 'another' },
      headers: origin === undefined ? {} : { origin },
    });
  const otherScheme = gateway.url.replace('http:', 'https:');
  const evil = ['https://evil.example', `${gateway.url}.evil.example`];
  for (const origin of [undefined, 'null', otherScheme, ...evil]) {
    const { status, body } = await change(origin);
    expect([status, body['error']]).toEqual([403, 'FORBIDDEN']);
  }
  expect((await change(gateway.url)).status).toBe(200);
});

it('a session cookie is rejected when its token was changed, or in a request with a wrong key', async () => {
  const cookie = readCookies(await begin(gateway.caller));
  const changed = cookie.replace(/=./, (start) => (start === '=a' ? '=b' : '=a'));
  expect((await send(changed, '/api/v1/key')).status).toBe(401);
  const headers = { authorization: 'Bearer gk_live_wrong' };
  expect((await send(cookie, '/api/v1/key', { headers })).status).toBe(401);
  expect((await send(cookie, '/api/v1/key')).status).toBe(200);
});

it('a session ends after twelve hours', async () => {
  const { cookie } = await newSession();
  await gateway.database.query(
    `UPDATE console_session SET expires_at = expires_at - interval '12 hours'`,
  );
  expect((await send(cookie, '/api/v1/key')).status).toBe(401);
});

it('a session cannot create a sign-in link or another session, which require a key', async () => {
  const { cookie } = await newSession();
  const post = { method: 'POST', headers: { origin: gateway.url } };
  const link = await send(cookie, '/api/v1/session/links', post);
  expect([link.status, link.body['error']]).toEqual([403, 'FORBIDDEN']);
  expect((await send(cookie, '/api/v1/session', post)).status).toBe(401);
});

it('a session opens no route after sign-out', async () => {
  const origin = { origin: gateway.url };
  const { cookie } = await newSession();
  expect((await send(cookie, '/api/v1/key')).status).toBe(200);
  const ended = await send(cookie, '/api/v1/session', { method: 'DELETE', headers: origin });
  expect(ended.headers.getSetCookie()[0]).toMatch(/studio_session=;.*expires=Thu, 01 Jan 1970/);
  const operatorCookie = readCookies(await beginAsOperator());
  expect((await send(operatorCookie, '/api/admin/v1/operator')).status).toBe(200);
  await send(operatorCookie, '/api/admin/v1/session', { method: 'DELETE', headers: origin });
  expect(callerEndpoints.length + operatorEndpoints.length).toBeGreaterThan(80);
  const statuses = await Promise.all(
    [...callerEndpoints, ...protocolEndpoints, ...operatorEndpoints].map(
      async ({ method, requestPath, takesBody, scope }) => {
        const answer = await send(scope === 'admin' ? operatorCookie : cookie, requestPath, {
          method,
          headers: origin,
          ...(takesBody && { body: {} }),
        });
        return `${method} ${requestPath} ${answer.status}`;
      },
    ),
  );
  expect(statuses.filter((line) => !line.endsWith(' 401'))).toEqual([]);
});

it('a session is listed with the keys of its user, and can be ended from the list', async () => {
  const { key, keyId, cookie, organizationId } = await newSession();
  const list = () =>
    gateway.call<{ sessions: { sessionId: string }[] }>('/api/v1/sessions', { key });
  const [session] = (await list()).body.sessions;
  expect(session).toMatchObject({ keyId, expiresAt: expect.any(String) });
  const end = (by: string) =>
    gateway.call(`/api/v1/sessions/${session?.sessionId}`, { method: 'DELETE', key: by });
  const stranger = await gateway.newCaller({ credits: 5 });
  expect((await end(stranger.key)).status).toBe(404);
  expect((await send(cookie, '/api/v1/key')).status).toBe(200);
  expect((await end(key)).status).toBe(200);
  expect((await send(cookie, '/api/v1/key')).status).toBe(401);
  expect((await list()).body.sessions).toEqual([]);
  // A session also ends when its key is replaced.
  const brief = await gateway.newKey({}, key);
  await gateway.send('/api/v1/session', { method: 'POST', key: brief.key });
  expect((await list()).body.sessions).toMatchObject([{ keyId: brief.keyId }]);
  const rotation = { key, body: { overlapSeconds: 0 } };
  await gateway.send(`/api/v1/api-keys/${brief.keyId}/rotate`, rotation);
  expect((await list()).body.sessions).toEqual([]);
  const users = await gateway.admin(`/organizations/${organizationId}/users`);
  expect(users.body).toMatchObject({ data: [{ keys: 2 }] });
});

it('a key has at most twenty sessions, all of which are listed, and none of another user', async () => {
  const [owner, other] = [await gateway.newCaller(), await gateway.newCaller()];
  const first = readCookies(await begin(owner));
  const foreign = readCookies(await begin(other));
  for (let count = 0; count < 20; count += 1) await begin(owner);
  const list = await gateway.call<{ sessions: { keyId: string }[] }>('/api/v1/sessions', {
    key: owner.key,
  });
  const keyIds = list.body.sessions.map(({ keyId }) => keyId);
  expect([keyIds.length, new Set(keyIds)]).toEqual([20, new Set([owner.keyId])]);
  expect((await send(first, '/api/v1/key')).status).toBe(401);
  expect((await send(foreign, '/api/v1/key')).status).toBe(200);
});

it('a session that has ended closes its event streams, and no others', async () => {
  const { key, keyId, cookie } = await newSession();
  const signal = AbortSignal.timeout(120_000);
  const open = (headers: Record<string, string>) =>
    fetch(`${gateway.url}/api/v1/studio/jobs/events`, { headers, signal });
  const ofSession = await open({ cookie });
  const ofKey = await open({ authorization: `Bearer ${key}` });
  const end = 'UPDATE console_session SET expires_at = now() WHERE key_id = $1';
  await gateway.database.query(end, [keyId]);
  expect(await ofSession.text()).toContain(': following');
  // The same check looked at both streams; the open one still reports a new job.
  const jobId = await gateway.startImage({ prompt: 'a tree' }, key);
  let text = '';
  for await (const chunk of ofKey.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    if (text.includes(jobId)) break;
  }
  expect(text).toContain(jobId);
  await gateway.untilDone(jobId, key);
});

it('a session does not use the rate limit of its key', async () => {
  const { key, cookie } = await newSession();
  const readRemaining = async () => {
    const { headers } = await gateway.call('/api/v1/usage', { key });
    return Number(headers.get('x-ratelimit-remaining'));
  };
  const before = await readRemaining();
  expect((await send(cookie, '/api/v1/usage')).status).toBe(200);
  expect(await readRemaining()).toBe(before - 1);
});

it('a session ends with its key', async () => {
  const { key, keyId, cookie } = await newSession();
  const readSession = async (sent: string) => (await send(sent, '/api/v1/session')).body['session'];
  expect(await readSession(cookie)).toMatchObject({ expiresAt: expect.any(String) });
  await gateway.send(`/api/v1/api-keys/${keyId}`, { method: 'DELETE', key });
  expect((await send(cookie, '/api/v1/key')).status).toBe(401);
  for (const each of [cookie, '']) expect(await readSession(each)).toBeNull();
});

it('a session starts once from a sign-in link, and not from an expired link', async () => {
  const { key, keyId } = await gateway.newCaller({ credits: 5 });
  const path = '/api/v1/session/links';
  const makeLink = async () => {
    const made = await gateway.call<{ url: string }>(path, { method: 'POST', key });
    expect(made.status).toBe(201);
    expect(made.headers.get('cache-control')).toBe('no-store');
    return new URL(made.body.url).hash.slice('#link='.length);
  };
  const use = (token?: string) => gateway.call(`${path}/use`, { key: null, body: { token } });
  const token = await makeLink();
  const answers = await Promise.all([use(token), use(token), use(token)]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 404, 404]);
  const begun = answers.find(({ status }) => status === 201);
  expect((await send(begun ? readCookies(begun) : '', '/api/v1/key')).body).toMatchObject({
    keyId,
  });

  const old = await makeLink();
  await gateway.database.query('UPDATE sign_in_link SET expires_at = clock_timestamp()');
  for (const unknown of [old, 'nonsense']) {
    expect(await use(unknown)).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
  }
  expect((await use()).status).toBe(400);
  const revokedLink = await makeLink();
  await gateway.send(`/api/v1/api-keys/${keyId}`, { method: 'DELETE', key });
  expect((await use(revokedLink)).status).toBe(404);
});

it('the root URL leads browsers to the console and programs to the descriptions, with a strict content security policy', async () => {
  const accept = (type: string) =>
    fetch(`${gateway.url}/`, { headers: { accept: type }, redirect: 'manual' });
  const browser = await accept('text/html,*/*;q=0.8');
  expect([browser.status, browser.headers.get('location')]).toEqual([302, '/console']);
  expect(await (await accept('*/*')).json()).toMatchObject({ console: `${gateway.url}/console` });
  const page = await fetch(`${gateway.url}/console/jobs/anything`);
  const policy = page.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self';");
  expect(policy).not.toContain('unsafe');
  const text = await page.text();
  expect(text).not.toMatch(/<script(?![^>]* src=)|<style|style="/);
  const [, script = ''] = /src="([^"]+)"/.exec(text) ?? [];
  const asset = await fetch(gateway.url + script);
  expect(asset.headers.get('cache-control')).toContain('immutable');
  expect((await fetch(`${gateway.url}/console/assets/..%2findex.html`)).status).toBe(404);
});

describe('behind a proxy that terminates TLS', () => {
  const secure = useGateway({ env: { PUBLIC_BASE_URL: 'https://gateway.example' } });

  it('every session cookie is Secure', async () => {
    const { key } = secure.caller;
    for (const begun of [
      await secure.call('/api/v1/session', { method: 'POST', key }),
      await beginAsOperator(secure),
    ]) {
      expect(begun.status).toBe(201);
      expect(begun.headers.getSetCookie()).toEqual([expect.stringMatching(/; secure(;|$)/i)]);
    }
  });
});
