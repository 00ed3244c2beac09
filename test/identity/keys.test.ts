import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { newKey } from '../../api/endpoints/api-keys.ts';
import { scopes, type Scope } from '../../identity/access.ts';
import type { ListedKey } from '../../identity/keys.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

/** Fields of the responses; the tests check which are present. */
type KeyBody = z.infer<typeof newKey> & {
  replaced: { keyId: string; expiresAt: number };
  keys: ListedKey[];
};

const path = '/api/v1/api-keys';
const gateway = useGateway({ settled: 'last' });

const list = async (key: string) => (await gateway.call<KeyBody>(path, { key })).body.keys;
const create = (key: string, body: unknown) => gateway.call<KeyBody>(path, { key, body });
const createSeveral = async ({ key }: TestCaller, count: number) => {
  for (let made = 0; made < count; made += 1) await gateway.newKey({}, key);
};
/** Expects that a key is admitted, or that it is not. */
const expectAdmitted = async (key: string, isAdmitted: boolean) =>
  expect((await gateway.call(path, { key })).status).toBe(isAdmitted ? 200 : 401);
const remove = (key: string, keyId: string) =>
  gateway.call<KeyBody>(`${path}/${keyId}`, { method: 'DELETE', key });
const rotate = (key: string, keyId: string, body: unknown = {}) =>
  gateway.call<KeyBody>(`${path}/${keyId}/rotate`, { key, body });

/** Creates another user of an organization, with a role, and a key of that user. */
async function newUser({ organizationId }: TestCaller, role: string): Promise<TestCaller> {
  const users = `/organizations/${organizationId}/users`;
  const user = await gateway.admin<{ data: { userId: string } }>(users, { name: 'x', role });
  const keys = `/users/${user.body.data.userId}/keys`;
  return (await gateway.admin<{ data: TestCaller }>(keys, { name: 'k' })).body.data;
}

/**
 * Holds the row of a user while the given requests begin, so that they all have reached the database
 * before the first of them can go on.
 */
async function whileLocked<Result>(
  userId: string,
  begin: () => Promise<Promise<Result>[]>,
): Promise<Result[]> {
  await gateway.database.query('BEGIN');
  await gateway.database.query('SELECT FROM app_user WHERE id = $1 FOR UPDATE', [userId]);
  const begun = await begin();
  await sleep(200);
  await gateway.database.query('COMMIT');
  return Promise.all(begun);
}

/** Returns the number of connections that wait for a lock in this database. */
async function countLockWaits(): Promise<number> {
  // Within a transaction the view stays as it was first seen.
  await gateway.database.query('SELECT pg_stat_clear_snapshot()');
  const connections = await gateway.database.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return connections.length;
}

/** Lets the expiry of a key pass; returns it, Unix milliseconds. */
async function expire(keyId: string): Promise<number> {
  const expiredAt = Date.now() - 1000;
  await gateway.database.query(
    'UPDATE api_key SET expires_at = to_timestamp($2::float8 / 1000) WHERE id = $1',
    [keyId, expiredAt],
  );
  return expiredAt;
}

function expectRejection(answer: object, status: number, error: string, fields: object = {}): void {
  expect(answer).toMatchObject({ status, body: { error, ...fields } });
}

describe('creating a key', () => {
  it("returns the secret once, and only the key's properties afterwards", async () => {
    const caller = await gateway.newCaller();
    const expiresAt = Date.now() + 3_600_000;
    const made = await create(caller.key, { name: 'CI 🚀', expiresAt });
    expect(made.status).toBe(200);
    expect(made.headers.get('cache-control')).toContain('no-store');
    const { key, ...meta } = made.body;
    expect(key).toMatch(/^gk_live_[0-9A-Za-z]{49}$/);
    expect(meta).toEqual({
      keyId: expect.stringMatching(/^key_[0-9a-f]{32}$/),
      keyPrefix: key.slice(0, 12),
      name: 'CI 🚀',
      createdAt: expect.any(Number),
      expiresAt,
      lastUsedAt: null,
      scopes: [...scopes],
      allowedModels: null,
      limit: null,
      rateLimit: null,
      jobsMax: null,
    });
    expect(Math.abs(meta.createdAt - Date.now())).toBeLessThan(60_000);

    const [first, second] = await list(caller.key);
    expect(first).toEqual({ ...meta, budget: null });
    expect(second).toMatchObject({ keyId: caller.keyId, lastUsedAt: expect.any(Number) });
    // The new key works, belongs to the same user, and has now been used.
    const seen = await list(key);
    expect(seen.map((entry) => entry.keyId)).toEqual([meta.keyId, caller.keyId]);
    expect(seen[0]?.lastUsedAt).toEqual(expect.any(Number));
    await gateway.database.query('UPDATE api_key SET last_used_at = to_timestamp(0)');
    expect((await list(key))[0]?.lastUsedAt).toBeGreaterThan(0);
    const stored = await gateway.database.query('SELECT to_jsonb(k) FROM api_key k');
    expect(JSON.stringify(stored)).not.toContain(key.slice(13));
  });

  it.each([
    ['a blank name', { name: '   ' }, 'name'],
    ['a name with a control character', { name: 'a\nb' }, 'name'],
    ['an expiry beyond all calendars', { name: 'n', expiresAt: 8.64e15 }, 'expiresAt'],
    ['no scope at all', { name: 'n', scopes: [] }, 'scopes'],
    ['a scope that does not exist', { name: 'n', scopes: ['everything'] }, 'scopes.0'],
    ['a scope twice', { name: 'n', scopes: ['chat', 'chat'] }, 'scopes'],
    ['no model at all', { name: 'n', allowedModels: [] }, 'allowedModels'],
  ])('rejects %s', async (_what, body, field) => {
    const answer = await create(gateway.caller.key, body);
    expectRejection(answer, 400, 'INVALID_REQUEST', { details: [{ path: field }] });
    expect(await list(gateway.caller.key)).toHaveLength(1);
  });

  it('creates exactly one tenth key for twenty simultaneous requests, and no eleventh', async () => {
    const caller = await gateway.newCaller();
    await createSeveral(caller, 8);
    const racing = await whileLocked(caller.userId, async () =>
      Array.from({ length: 20 }, (_, index) => create(caller.key, { name: `race ${index}` })),
    );
    const { 200: made = [], 400: rejected = [] } = Object.groupBy(racing, ({ status }) => status);
    expect([made.length, rejected.length]).toEqual([1, 19]);
    for (const answer of rejected) expectRejection(answer, 400, 'KEY_QUOTA_REACHED');
    expect(await list(caller.key)).toHaveLength(10);

    // Revoked keys do not count and are not listed; another user has a quota of his own.
    expect((await remove(caller.key, made[0]?.body.keyId ?? '')).status).toBe(200);
    expect(await list(caller.key)).toHaveLength(9);
    expect((await create(caller.key, { name: 'again' })).status).toBe(200);
    expectRejection(await create(caller.key, { name: 'more' }), 400, 'KEY_QUOTA_REACHED');
    const colleague = await newUser(caller, 'member');
    expect((await create(colleague.key, { name: 'mine' })).status).toBe(200);
  });
});

describe('an expired key', () => {
  it('is rejected, stays in the list, and counts towards the quota until it is revoked', async () => {
    const caller = await gateway.newCaller();
    await createSeveral(caller, 8);
    const expiresAt = Date.now() + 600_000;
    const brief = await gateway.newKey({ expiresAt }, caller.key);
    await expectAdmitted(brief.key, true);
    const expiredAt = await expire(brief.keyId);
    await expectAdmitted(brief.key, false);
    const [listed] = await list(caller.key);
    expect(listed).toMatchObject({ keyId: brief.keyId, expiresAt: expiredAt });
    expectRejection(await rotate(caller.key, brief.keyId), 400, 'INVALID_REQUEST');
    expectRejection(await create(caller.key, { name: 'n' }), 400, 'KEY_QUOTA_REACHED');
    await remove(caller.key, brief.keyId);
    expect((await create(caller.key, { name: 'n' })).status).toBe(200);
  });
});

describe('granting permissions to a new key', () => {
  it('never exceeds the creating key, and copies its permissions by default', async () => {
    const expiresAt = Date.now() + 3_600_000;
    const permissions = {
      scopes: ['chat', 'keys:write', 'keys:read'] satisfies Scope[],
      allowedModels: ['nano-banana', 'seedream'],
    };
    const maker = await gateway.newCaller({ ...permissions, expiresAtMs: expiresAt });
    const same = await create(maker.key, { name: 'same' });
    expect(same.body).toMatchObject({ expiresAt, ...permissions });
    const less = { scopes: ['chat'], allowedModels: ['seedream'], expiresAt: expiresAt - 1000 };
    expect((await create(maker.key, { name: 'less', ...less })).body).toMatchObject(less);
    for (const more of [
      { scopes: ['chat', 'usage:read'] },
      { allowedModels: ['seedream', 'alpha-image'] },
      { expiresAt: expiresAt + 1 },
    ]) {
      expectRejection(await create(maker.key, { name: 'more', ...more }), 403, 'FORBIDDEN');
    }
    expect(await list(maker.key)).toHaveLength(3);
  });

  it('is rejected for a viewer, which may only list and revoke existing keys', async () => {
    const viewer = await newUser(await gateway.newCaller(), 'viewer');
    expectRejection(await create(viewer.key, { name: 'n' }), 403, 'FORBIDDEN');
    expect(await list(viewer.key)).toHaveLength(1);
    expect((await remove(viewer.key, viewer.keyId)).status).toBe(200);
  });
});

describe('rotating a key', () => {
  it('creates a key with the same permissions; the old key works until the overlap ends', async () => {
    const caller = await gateway.newCaller();
    const fields = {
      name: 'service',
      scopes: ['keys:read', 'chat'],
      allowedModels: ['seedream'],
      expiresAt: null,
    };
    const old = await gateway.newKey(fields, caller.key);
    const fresh = await rotate(caller.key, old.keyId, { overlapSeconds: 600, expiresAt: null });
    expect(fresh).toMatchObject({
      status: 200,
      body: { ...fields, replaced: { keyId: old.keyId, expiresAt: expect.any(Number) } },
    });
    const leftMs = fresh.body.replaced.expiresAt - Date.now();
    expect(leftMs).toBeGreaterThan(500_000);
    expect(leftMs).toBeLessThanOrEqual(600_000);
    await expectAdmitted(old.key, true);
    await expectAdmitted(fresh.body.key, true);
    expectRejection(await rotate(caller.key, old.keyId), 409, 'KEY_ALREADY_REPLACED');
    expect((await list(caller.key)).map((key) => key.keyId)).toContain(old.keyId);

    await expire(old.keyId);
    await expectAdmitted(old.key, false);
    await expectAdmitted(fresh.body.key, true);
    expect((await list(caller.key)).map((key) => key.keyId)).not.toContain(old.keyId);
    expectRejection(await rotate(caller.key, old.keyId), 404, 'NOT_FOUND');
  });

  it('disables the old key at once without an overlap, and never extends its lifetime', async () => {
    const caller = await gateway.newCaller();
    const expiresAt = Date.now() + 60_000;
    const later = expiresAt + 60_000;
    const { keyId } = await gateway.newKey({ expiresAt }, caller.key);
    const first = await rotate(caller.key, keyId, { overlapSeconds: 3600, expiresAt: later });
    expect(first.body).toMatchObject({ expiresAt: later, replaced: { expiresAt } });
    const second = await rotate(caller.key, first.body.keyId, { overlapSeconds: 0 });
    expect(second.body.expiresAt).toBe(later);
    await expectAdmitted(first.body.key, false);
    await expectAdmitted(second.body.key, true);
  });

  it('works when the quota is used up, and limits the number of old keys in their overlap', async () => {
    const caller = await gateway.newCaller();
    await createSeveral(caller, 9);
    const rotateOne = (keyId = '') => rotate(caller.key, keyId, { overlapSeconds: 600 });
    for (const { keyId } of await list(caller.key)) {
      if (keyId !== caller.keyId) expect((await rotateOne(keyId)).status).toBe(200);
    }
    const [newest] = await list(caller.key);
    expect((await rotateOne(newest?.keyId)).status).toBe(200);
    const [next] = await list(caller.key);
    expectRejection(await rotateOne(next?.keyId), 400, 'KEY_QUOTA_REACHED');
    expect(await list(caller.key)).toHaveLength(20);
    expectRejection(await create(caller.key, { name: 'n' }), 400, 'KEY_QUOTA_REACHED');
    await expire(newest?.keyId ?? '');
    expect((await rotateOne(next?.keyId)).status).toBe(200);
  });

  it.each([
    ['scopes', { scopes: ['keys:write'] }],
    ['models', { allowedModels: ['seedream'] }],
    ['a longer lifetime', { expiresAt: Date.now() + 3_600_000 }],
  ])('is rejected for a key with more than the calling key: %s', async (_what, less) => {
    const owner = await gateway.newCaller();
    const narrow = await gateway.newKey(less, owner.key);
    expectRejection(await rotate(narrow.key, owner.keyId), 403, 'FORBIDDEN');
    await expectAdmitted(owner.key, true);
    expect((await rotate(narrow.key, narrow.keyId)).status).toBe(200);
  });

  it.each([
    { overlapSeconds: -1 },
    { overlapSeconds: 30 * 86_400 + 1 },
    { expiresAt: 5 },
    { name: 'n' },
  ])('rejects %j', async (body) => {
    const { key, keyId } = gateway.caller;
    expectRejection(await rotate(key, keyId, body), 400, 'INVALID_REQUEST');
  });
});

describe('revoking a key during simultaneous key creations', () => {
  it('leaves no key that the list does not show', async () => {
    const caller = await gateway.newCaller();
    const stolen = await gateway.newKey({ name: 'stolen' }, caller.key);
    const [shown, ...attempts] = await whileLocked<unknown>(caller.userId, async () => {
      // Fewer than the connections that one organization may use.
      const creations = Array.from({ length: 3 }, (_, index) =>
        create(stolen.key, { name: `heir ${index}` }),
      );
      await until(async () => (await countLockWaits()) === creations.length);
      const revoked = remove(caller.key, stolen.keyId).then(() => list(caller.key));
      // The revocation waits behind the creations: after the release of the lock it could run first.
      await until(async () => (await countLockWaits()) === creations.length + 1);
      return [revoked, ...creations];
    });
    expect(attempts).toMatchObject(Array.from({ length: 3 }, () => ({ status: 200 })));
    // After the response to the revocation, the list is final.
    expect(await list(caller.key)).toEqual(shown);
    expect(shown).toHaveLength(4);
    expect((await create(stolen.key, { name: 'late' })).status).toBe(401);
  });
});
