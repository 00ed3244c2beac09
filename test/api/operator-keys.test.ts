/**
 * Operator keys: each operator has a separate key, which identifies the operator in every recorded
 * action and stops working when it is revoked.
 */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

interface Operator {
  operatorId: string | null;
  name: string | null;
  key: string;
  revokedAt: string | null;
  paused: { actor: string } | null;
}
interface Body<Data> {
  data: Data;
  error: string;
  details: { path: string }[];
}

const gateway = useGateway({ settled: 'last' });

const ask = <Data = Operator>(path: string, key: string, body?: object) =>
  gateway.call<Body<Data>>(`/api/admin/v1${path}`, { key, ...(body && { body }) });
const by = { actor: 'olga', reason: 'ticket 7' };
const make = (name: string) => ask('/operators', gateway.config.ADMIN_API_KEY, { ...by, name });
const actionsOn = async (subject: string) =>
  gateway.database.query<{ action: string; actor: string; reason: string }>(
    'SELECT action, actor, reason FROM admin_action WHERE subject = $1 ORDER BY id',
    [subject],
  );

describe('the key of an operator', () => {
  it('is shown once, opens the operators’ API, and is not stored', async () => {
    const made = await make('Paul Größe');
    expect(made.status).toBe(200);
    expect(made.headers.get('cache-control')).toBe('no-store');
    const { key, ...shown } = made.body.data;
    expect(key).toMatch(/^gk_oper_[0-9A-Za-z]{49}$/);
    expect(shown).toMatchObject({ name: 'Paul Größe', lastUsedAt: null, revokedAt: null });
    expect((await ask('/organizations', key)).status).toBe(200);
    const me = await ask('/operator', key);
    expect(me.body.data).toEqual({ operatorId: shown.operatorId, name: 'Paul Größe' });
    const admin = await ask('/operator', gateway.config.ADMIN_API_KEY);
    expect(admin.body.data).toEqual({ operatorId: null, name: null });
    const list = await ask<Operator[]>('/operators', key);
    expect(list.body.data).toContainEqual({ ...shown, lastUsedAt: expect.any(String) });
    const rows = JSON.stringify(await gateway.database.query('SELECT * FROM operator'));
    expect(rows).not.toContain(key.slice(12));
    expect(await actionsOn(shown.operatorId ?? '')).toEqual([
      { action: 'operator.created', ...by },
    ]);
  });

  it("is rejected by the callers' API, and a caller's key by the operators' API", async () => {
    const { key } = (await make('quentin')).body.data;
    expect((await gateway.call('/api/v1/usage', { key })).status).toBe(401);
    expect((await ask('/operator', gateway.caller.key)).status).toBe(401);
    expect((await ask('/operator', `${key.slice(0, -1)}_`)).status).toBe(401);
    expect((await ask('/operator', key.replace('oper', 'live'))).status).toBe(401);
  });

  it('determines the actor of an action, whatever name the request contains', async () => {
    const { key } = (await make('rita')).body.data;
    const reason = 'fal is down';
    const paused = await ask('/providers/fal/pause', key, { actor: 'somebody else', reason });
    expect(paused.body.data.paused).toMatchObject({ actor: 'rita', reason });
    await ask('/providers/fal/resume', key, { reason });
    // Other files pause fal too.
    expect((await actionsOn('fal')).slice(-2)).toEqual([
      { action: 'provider.paused', actor: 'rita', reason },
      { action: 'provider.resumed', actor: 'rita', reason },
    ]);
    for (const body of [{}, { actor: 'rita' }]) {
      const unsaid = await ask('/providers/fal/pause', key, body);
      expect(`${unsaid.status} ${unsaid.body.details[0]?.path}`).toBe('400 reason');
    }
  });

  it('stops working when it is revoked, and its name is free again', async () => {
    const { key, operatorId } = (await make('sven')).body.data;
    const taken = await make('SVEN');
    expect(`${taken.status} ${taken.body.details[0]?.path}`).toBe('400 name');
    expect((await ask('/audit', key)).status).toBe(200);
    const revoke = () => ask(`/operators/${operatorId}/revoke`, gateway.config.ADMIN_API_KEY, by);
    expect((await revoke()).body.data.revokedAt).toEqual(expect.any(String));
    expect((await ask('/audit', key)).status).toBe(401);
    expect((await revoke()).status).toBe(404);
    expect((await actionsOn(operatorId ?? '')).map(({ action }) => action)).toEqual([
      'operator.created',
      'operator.revoked',
    ]);
    expect((await make('sven')).status).toBe(200);
  });

  it('cannot create or revoke other keys', async () => {
    const { key, operatorId } = (await make('tess')).body.data;
    for (const [path, body] of [
      ['/operators', { reason: 'r', name: 'uwe' }],
      [`/operators/${operatorId}/revoke`, { reason: 'r' }],
    ] as const) {
      const rejected = await ask(path, key, body);
      expect(`${rejected.status} ${rejected.body.error}`).toBe('403 FORBIDDEN');
    }
    expect((await ask('/operator', key)).status).toBe(200);
  });
});
