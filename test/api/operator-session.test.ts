/**
 * The console session of an operator: it has a name, works only from the console's pages, and ends
 * with its key.
 */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

interface Body {
  data: { key: string; operatorId: string; paused: { actor: string } | null };
  operator: object | null;
  error: string;
  details: { path: string }[];
}

const gateway = useGateway({ settled: 'last' });

const sessionPath = '/api/admin/v1/session';

/** Creates a session, or returns the rejection. */
async function begin(key: string, body: object) {
  const answer = await gateway.call<Body>(sessionPath, { key, body });
  const cookies = answer.headers.getSetCookie();
  const cookie = cookies.map((each) => each.split(';')[0]).join('; ');
  return { ...answer, cookies, cookie };
}
const ask = (path: string, cookie: string, options: object = {}) =>
  gateway.call<Body>(path, { key: null, headers: { cookie, origin: gateway.url }, ...options });
const adminKey = (): string => gateway.config.ADMIN_API_KEY;
const makeOperator = async (name: string) =>
  (
    await gateway.call<Body>('/api/admin/v1/operators', {
      key: adminKey(),
      body: { actor: 'olga', reason: 'ticket 7', name },
    })
  ).body.data;

describe('an operator session', () => {
  it('requires a name with the admin key, and records actions under that name', async () => {
    const nameless = await begin(adminKey(), {});
    expect(`${nameless.status} ${nameless.body.details[0]?.path}`).toBe('400 actor');
    const { status, cookies, cookie } = await begin(adminKey(), { actor: 'Jörg. Ö' });
    expect(status).toBe(201);
    expect(cookies).toHaveLength(1);
    for (const each of cookies) expect(each).toMatch(/path=\/api;.*samesite=strict; httponly/i);
    expect(cookies.join()).not.toContain(adminKey());
    const session = await ask('/api/v1/session', cookie);
    expect(session.body).toMatchObject({ session: null, operator: { name: 'Jörg. Ö' } });
    const body = { reason: 'fal is down' };
    const paused = await ask('/api/admin/v1/providers/fal/pause', cookie, { body });
    expect(paused.body.data.paused).toMatchObject({ actor: 'Jörg. Ö', ...body });
    await ask('/api/admin/v1/providers/fal/resume', cookie, { body });
  });

  it("has the operator's name with an operator key, and ends when the key is revoked", async () => {
    const { key, operatorId } = await makeOperator('paula');
    const { cookie } = await begin(key, { actor: 'somebody else' });
    const me = await ask('/api/admin/v1/operator', cookie);
    expect(me.body.data).toEqual({ operatorId, name: 'paula' });
    await gateway.call(`/api/admin/v1/operators/${operatorId}/revoke`, {
      key: adminKey(),
      body: { actor: 'olga', reason: 'ticket 8' },
    });
    expect((await ask('/api/admin/v1/operator', cookie)).status).toBe(401);
    expect((await ask('/api/v1/session', cookie)).body.operator).toBeNull();
  });

  it('allows changes only from the console’s own pages', async () => {
    const { cookie } = await begin(adminKey(), { actor: 'olga' });
    const body = { reason: 'r' };
    for (const origin of [{ origin: 'https://elsewhere.example' }, { origin: 'null' }, {}]) {
      const headers = { cookie, ...origin };
      const rejected = await ask('/api/admin/v1/providers/fal/pause', cookie, { headers, body });
      expect(`${rejected.status} ${rejected.body.error}`).toBe('403 FORBIDDEN');
    }
    expect((await ask('/api/admin/v1/operator', cookie, { headers: { cookie } })).status).toBe(200);
  });

  it("is rejected by the callers' API, cannot create a session, and does not replace a wrong key", async () => {
    const { cookie } = await begin(adminKey(), { actor: 'olga' });
    expect((await ask('/api/v1/usage', cookie)).status).toBe(401);
    expect((await ask(sessionPath, cookie, { body: { actor: 'peter' } })).status).toBe(401);
    const headers = { cookie };
    const wrong = await gateway.call('/api/admin/v1/operator', { key: 'admin_wrong', headers });
    expect(wrong.status).toBe(401);
    const forged = cookie.replace(/=./, (start) => (start === '=a' ? '=b' : '=a'));
    expect((await ask('/api/admin/v1/operator', forged)).status).toBe(401);
  });

  it('is ended by a DELETE with its cookie', async () => {
    const { cookie } = await begin(adminKey(), { actor: 'olga' });
    const ended = await ask(sessionPath, cookie, { method: 'DELETE' });
    expect(ended.status).toBe(200);
    expect(ended.headers.getSetCookie().join()).toMatch(
      /studio_operator=;.*expires=Thu, 01 Jan 1970/,
    );
  });
});
