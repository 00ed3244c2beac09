/**
 * The keys and console sessions of operators: they name the operator in every recorded action, and
 * stop working when the key is revoked.
 */
import { describe, expect, it } from 'vitest';
import { operatorAction, useGateway, type StudioBody } from '../harness/gateway.ts';

interface Shown {
  operatorId: string;
  name: string;
  key: string;
  revokedAt: string | null;
  paused: { actor: string } | null;
}
interface Body<Data> extends StudioBody<Data> {
  operator: object | null;
}

const gateway = useGateway({ settled: 'last' });

const send = <Data = Shown>(path: string, options: Parameters<typeof gateway.call>[1]) =>
  gateway.call<Body<Data>>(`/api/admin/v1${path}`, options);
const makeOperator = (name: string) => gateway.admin<Body<Shown>>('/operators', { name });
const revoke = (operatorId: string) =>
  gateway.admin<Body<Shown>>(`/operators/${operatorId}/revoke`, {});
const listActions = (subject: string) =>
  gateway.database.query<{ action: string; actor: string; reason: string }>(
    'SELECT action, actor, reason FROM admin_action WHERE subject = $1 ORDER BY id',
    [subject],
  );

describe('the key of an operator', () => {
  it('is shown once, opens the operators’ API, and is not stored', async () => {
    const made = await makeOperator('Paul Größe');
    expect(made.status).toBe(200);
    expect(made.headers.get('cache-control')).toBe('no-store');
    const { key, ...shown } = made.body.data;
    const { operatorId, name } = shown;
    expect(key).toMatch(/^gk_oper_[0-9A-Za-z]{49}$/);
    expect(shown).toMatchObject({ name: 'Paul Größe', lastUsedAt: null, revokedAt: null });
    expect((await send('/organizations', { key })).status).toBe(200);
    expect((await send('/operator', { key })).body.data).toEqual({ operatorId, name });
    const admin = await gateway.admin('/operator');
    expect(admin.body.data).toEqual({ operatorId: null, name: null });
    const list = await send<Shown[]>('/operators', { key });
    expect(list.body.data).toContainEqual({ ...shown, lastUsedAt: expect.any(String) });
    const rows = JSON.stringify(await gateway.database.query('SELECT * FROM operator'));
    expect(rows).not.toContain(key.slice(12));
    expect(await listActions(operatorId)).toEqual([
      { action: 'operator.created', ...operatorAction },
    ]);
  });

  it("is rejected by the callers' API, and when it is changed", async () => {
    const { key } = (await makeOperator('quentin')).body.data;
    expect((await gateway.call('/api/v1/usage', { key })).status).toBe(401);
    for (const changed of [`${key.slice(0, -1)}_`, key.replace('oper', 'live')]) {
      expect((await send('/operator', { key: changed })).status).toBe(401);
    }
  });

  it('determines the actor of an action, whatever name the request contains', async () => {
    const { key } = (await makeOperator('rita')).body.data;
    const reason = 'fal is down';
    const body = { actor: 'somebody else', reason };
    const paused = await send('/providers/fal/pause', { key, body });
    expect(paused.body.data.paused).toMatchObject({ actor: 'rita', reason });
    await send('/providers/fal/resume', { key, body: { reason } });
    // Other files pause fal too.
    expect((await listActions('fal')).slice(-2)).toEqual([
      { action: 'provider.paused', actor: 'rita', reason },
      { action: 'provider.resumed', actor: 'rita', reason },
    ]);
    for (const incomplete of [{}, { actor: 'rita' }]) {
      const rejected = await send('/providers/fal/pause', { key, body: incomplete });
      expect(rejected).toMatchObject({ status: 400, body: { details: [{ path: 'reason' }] } });
    }
  });

  it('stops working when it is revoked, and its name is free again', async () => {
    const { key, operatorId } = (await makeOperator('sven')).body.data;
    expect(await makeOperator('SVEN')).toMatchObject({
      status: 400,
      body: { details: [{ path: 'name' }] },
    });
    expect((await send('/audit', { key })).status).toBe(200);
    expect((await revoke(operatorId)).body.data.revokedAt).toEqual(expect.any(String));
    expect((await send('/audit', { key })).status).toBe(401);
    expect((await revoke(operatorId)).status).toBe(404);
    expect((await listActions(operatorId)).map(({ action }) => action)).toEqual([
      'operator.created',
      'operator.revoked',
    ]);
    expect((await makeOperator('sven')).status).toBe(200);
  });

  it('cannot create or revoke other keys', async () => {
    const { key, operatorId } = (await makeOperator('tess')).body.data;
    for (const [path, body] of [
      ['/operators', { reason: 'r', name: 'uwe' }],
      [`/operators/${operatorId}/revoke`, { reason: 'r' }],
    ] as const) {
      expect(await send(path, { key, body })).toMatchObject({
        status: 403,
        body: { error: 'FORBIDDEN' },
      });
    }
    expect((await send('/operator', { key })).status).toBe(200);
  });
});

describe('an operator session', () => {
  /** Creates a session, or returns the rejection. */
  async function begin(body: object, key = gateway.config.ADMIN_API_KEY) {
    const answer = await send('/session', { key, body });
    const cookies = answer.headers.getSetCookie();
    return { ...answer, cookies, cookie: cookies.map((each) => each.split(';')[0]).join('; ') };
  }
  const useSession = (cookie: string, options: Parameters<typeof gateway.call>[1] = {}) => ({
    key: null,
    headers: { cookie, origin: gateway.url },
    ...options,
  });

  it('requires a name with the admin key, and records actions under that name', async () => {
    expect(await begin({})).toMatchObject({ status: 400, body: { details: [{ path: 'actor' }] } });
    const { status, cookies, cookie } = await begin({ actor: 'Jörg. Ö' });
    expect([status, cookies]).toEqual([
      201,
      [expect.stringMatching(/path=\/api;.*samesite=strict; httponly/i)],
    ]);
    expect(cookies.join()).not.toContain(gateway.config.ADMIN_API_KEY);
    const session = await gateway.call('/api/v1/session', useSession(cookie));
    expect(session.body).toMatchObject({ session: null, operator: { name: 'Jörg. Ö' } });
    const body = { reason: 'fal is down' };
    const paused = await send('/providers/fal/pause', useSession(cookie, { body }));
    expect(paused.body.data.paused).toMatchObject({ actor: 'Jörg. Ö', ...body });
    await send('/providers/fal/resume', useSession(cookie, { body }));
  });

  it("has the operator's name with an operator key, and ends when the key is revoked", async () => {
    const { key, operatorId } = (await makeOperator('paula')).body.data;
    const { cookie } = await begin({ actor: 'somebody else' }, key);
    const me = await send('/operator', useSession(cookie));
    expect(me.body.data).toEqual({ operatorId, name: 'paula' });
    await revoke(operatorId);
    expect((await send('/operator', useSession(cookie))).status).toBe(401);
    const session = await gateway.call('/api/v1/session', useSession(cookie));
    expect(session.body).toMatchObject({ operator: null });
  });

  it("is rejected by the callers' API, cannot create a session, and does not replace a wrong key", async () => {
    const { cookie } = await begin({ actor: 'olga' });
    expect((await gateway.call('/api/v1/usage', useSession(cookie))).status).toBe(401);
    const forged = cookie.replace(/=./, (start) => (start === '=a' ? '=b' : '=a'));
    for (const [path, options] of [
      ['/session', useSession(cookie, { body: { actor: 'peter' } })],
      ['/operator', { key: 'admin_wrong', headers: { cookie } }],
      ['/operator', useSession(forged)],
    ] as const) {
      expect((await send(path, options)).status).toBe(401);
    }
  });
});
