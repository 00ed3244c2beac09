import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { scopes, type Scope } from '../../api/identity/access.ts';
import type { ErrorDetail } from '../../domain/errors.ts';
import { useGateway, type Answer, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

interface KeyBody {
  key: string;
  keyId: string;
  keyPrefix: string;
  name: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
  scopes: Scope[];
  allowedModels: string[] | null;
  replaced: { keyId: string; expiresAt: number };
  keys: KeyBody[];
  success: boolean;
  data: KeyBody & { userId: string };
  error: string;
  message: string;
  details: ErrorDetail[];
}

const path = '/api/v1/api-keys';
const gateway = useGateway({ settled: 'last' });

const newCaller = (options: Partial<Parameters<TestGateway['newCaller']>[0]> = {}) =>
  gateway.newCaller({ credits: 100, ...options });
const list = async (key: string) => (await gateway.call<KeyBody>(path, { key })).body.keys;
const create = (key: string, body: unknown) => gateway.call<KeyBody>(path, { key, body });
const createSeveral = async ({ key }: TestCaller, count: number) => {
  for (let made = 0; made < count; made += 1) {
    expect((await create(key, { name: `key ${made}` })).status).toBe(200);
  }
};
const remove = (key: string, keyId: string) =>
  gateway.call<KeyBody>(`${path}/${keyId}`, { method: 'DELETE', key });
const rotate = (key: string, keyId: string, body: unknown = {}) =>
  gateway.call<KeyBody>(`${path}/${keyId}/rotate`, { key, body });

/** A key of another user of the same organization, with a role. */
async function newUser(caller: TestCaller, role: string): Promise<{ keyId: string; key: string }> {
  const users = `/organizations/${caller.organizationId}/users`;
  const user = await gateway.admin<KeyBody>(users, { name: 'Somebody', role });
  const keys = `/users/${user.body.data.userId}/keys`;
  return (await gateway.admin<KeyBody>(keys, { name: 'theirs' })).body.data;
}

/**
 * Holds the row of a user while the given requests begin, so that they all have reached the database
 * before the first of them can go on.
 */
async function whileLocked<Result>(
  memberId: string,
  begin: () => Promise<Promise<Result>[]>,
): Promise<Result[]> {
  await gateway.database.query('BEGIN');
  await gateway.database.query('SELECT FROM member WHERE id = $1 FOR UPDATE', [memberId]);
  const begun = await begin();
  await sleep(200);
  await gateway.database.query('COMMIT');
  return Promise.all(begun);
}

/** Returns the number of connections that wait for a lock in this database. */
async function waitingForLocks(): Promise<number> {
  // Within a transaction the view stays as it was first seen.
  await gateway.database.query('SELECT pg_stat_clear_snapshot()');
  const waiting = await gateway.database.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return waiting.length;
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

function expectRejection(answer: Answer<KeyBody>, status: number, error: string): void {
  expect({ status: answer.status, error: answer.body.error }).toEqual({ status, error });
}

describe('creating a key', () => {
  it("returns the secret once, and only the key's properties afterwards", async () => {
    const caller = await newCaller();
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
    });
    expect(Math.abs(meta.createdAt - Date.now())).toBeLessThan(60_000);

    const [first, second] = await list(caller.key);
    expect(first).toEqual({ ...meta, budget: null });
    expect(second).toMatchObject({ keyId: caller.keyId, lastUsedAt: expect.any(Number) });
    // The new key works, belongs to the same user, and has now been used.
    const seen = await list(key);
    expect(seen.map((entry) => entry.keyId)).toEqual([meta.keyId, caller.keyId]);
    expect(seen[0]?.lastUsedAt).toEqual(expect.any(Number));
    const stored = await gateway.database.query(`SELECT to_jsonb(k) AS row FROM api_key k`);
    expect(JSON.stringify(stored)).not.toContain(key.slice(13));
  });

  it.each([
    ['an empty name', { name: '' }, 'name'],
    ['a blank name', { name: '   ' }, 'name'],
    ['a name with a control character', { name: 'a\nb' }, 'name'],
    ['an expiry beyond all calendars', { name: 'n', expiresAt: 8.64e15 }, 'expiresAt'],
    ['no scope at all', { name: 'n', scopes: [] }, 'scopes'],
    ['a scope that does not exist', { name: 'n', scopes: ['everything'] }, 'scopes.0'],
    ['a scope twice', { name: 'n', scopes: ['chat', 'chat'] }, 'scopes'],
    ['no model at all', { name: 'n', allowedModels: [] }, 'allowedModels'],
    ['an unknown field', { name: 'n', admin: true }, 'admin'],
  ])('rejects %s', async (_what, body, field) => {
    const answer = await create(gateway.caller.key, body);
    expectRejection(answer, 400, 'INVALID_REQUEST');
    expect(answer.body.details[0]?.path).toBe(field);
    expect(await list(gateway.caller.key)).toHaveLength(1);
  });

  it('creates exactly one tenth key for twenty simultaneous requests, and no eleventh', async () => {
    const caller = await newCaller();
    await createSeveral(caller, 8);
    const racing = await whileLocked(caller.memberId, async () =>
      Array.from({ length: 20 }, (_, index) => create(caller.key, { name: `race ${index}` })),
    );
    const made = racing.filter((answer) => answer.status === 200);
    expect(made).toHaveLength(1);
    for (const answer of racing.filter((each) => each.status !== 200)) {
      expectRejection(answer, 400, 'KEY_QUOTA_REACHED');
    }
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

describe('creating a key with an Idempotency-Key', () => {
  const keyed = (key: string, idempotencyKey: string, body: unknown) =>
    gateway.call<KeyBody>(path, { key, body, headers: { 'idempotency-key': idempotencyKey } });

  it("creates one key for repeated requests; a repeat returns the key's id but not its secret", async () => {
    const caller = await newCaller();
    const racing = await Promise.all(
      Array.from({ length: 6 }, () => keyed(caller.key, 'k', { name: 'once' })),
    );
    const made = racing.filter(({ status }) => status === 200);
    expect(made).toHaveLength(1);
    const keyId = made[0]?.body.keyId;
    for (const answer of racing.filter(({ status }) => status !== 200)) {
      expectRejection(answer, 409, 'KEY_ALREADY_CREATED');
      expect(answer.body.keyId).toBe(keyId);
    }
    expect((await list(caller.key)).map((entry) => entry.keyId)).toEqual([keyId, caller.keyId]);
    const stored = await gateway.database.query(
      `SELECT to_jsonb(c) AS row FROM idempotency_claim c`,
    );
    expect(JSON.stringify(stored)).toContain(keyId);
    expect(JSON.stringify(stored)).not.toContain(made[0]?.body.key.slice(13));
  });

  it('rejects the same Idempotency-Key with another body, and keeps the key usable after a rejection', async () => {
    const caller = await newCaller();
    await keyed(caller.key, 'k', { name: 'once' });
    expectRejection(await keyed(caller.key, 'k', { name: 'twice' }), 422, 'IDEMPOTENCY_KEY_REUSED');
    const narrow = await create(caller.key, { name: 'narrow', scopes: ['keys:write'] });
    const wide = { name: 'wide', scopes: ['chat'] };
    expectRejection(await keyed(narrow.body.key, 'w', wide), 403, 'FORBIDDEN');
    expect((await keyed(caller.key, 'w', wide)).status).toBe(200);
  });
});

describe('an expired key', () => {
  it('is rejected, stays in the list, and counts towards the quota until it is revoked', async () => {
    const caller = await newCaller();
    await createSeveral(caller, 8);
    const expiresAt = Date.now() + 600_000;
    const brief = (await create(caller.key, { name: 'brief', expiresAt })).body;
    expect((await gateway.call(path, { key: brief.key })).status).toBe(200);
    const expiredAt = await expire(brief.keyId);
    expect((await gateway.call(path, { key: brief.key })).status).toBe(401);
    expect((await list(caller.key))[0]).toMatchObject({
      keyId: brief.keyId,
      expiresAt: expiredAt,
    });
    expectRejection(await rotate(caller.key, brief.keyId), 400, 'INVALID_REQUEST');
    expectRejection(await create(caller.key, { name: 'n' }), 400, 'KEY_QUOTA_REACHED');
    await remove(caller.key, brief.keyId);
    expect((await create(caller.key, { name: 'n' })).status).toBe(200);
  });
});

describe('granting permissions to a new key', () => {
  it('never exceeds the creating key, and copies its permissions by default', async () => {
    const expiresAt = Date.now() + 3_600_000;
    const maker = await newCaller({
      scopes: ['chat', 'keys:write', 'keys:read'],
      allowedModels: ['nano-banana', 'seedream'],
      expiresAtMs: expiresAt,
    });
    const same = await create(maker.key, { name: 'same' });
    expect(same.body).toMatchObject({
      expiresAt,
      scopes: ['chat', 'keys:write', 'keys:read'],
      allowedModels: ['nano-banana', 'seedream'],
    });
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
    const viewer = await newUser(await newCaller(), 'viewer');
    expectRejection(await create(viewer.key, { name: 'n' }), 403, 'FORBIDDEN');
    expectRejection(await rotate(viewer.key, viewer.keyId), 403, 'FORBIDDEN');
    expect(await list(viewer.key)).toHaveLength(1);
    expect((await remove(viewer.key, viewer.keyId)).status).toBe(200);
  });
});

describe('rotating a key', () => {
  it('creates a key with the same permissions; the old key works until the overlap ends', async () => {
    const caller = await newCaller();
    const old = await create(caller.key, {
      name: 'service',
      scopes: ['keys:read', 'chat'],
      allowedModels: ['seedream'],
      expiresAt: null,
    });
    const fresh = await rotate(caller.key, old.body.keyId, {
      overlapSeconds: 600,
      expiresAt: null,
    });
    expect(fresh.status).toBe(200);
    expect(fresh.body).toMatchObject({
      name: 'service',
      scopes: ['keys:read', 'chat'],
      allowedModels: ['seedream'],
      expiresAt: null,
      replaced: { keyId: old.body.keyId, expiresAt: expect.any(Number) },
    });
    const leftMs = fresh.body.replaced.expiresAt - Date.now();
    expect(leftMs).toBeGreaterThan(500_000);
    expect(leftMs).toBeLessThanOrEqual(600_000);
    expect((await gateway.call(path, { key: old.body.key })).status).toBe(200);
    expect((await gateway.call(path, { key: fresh.body.key })).status).toBe(200);
    expectRejection(await rotate(caller.key, old.body.keyId), 409, 'KEY_ALREADY_REPLACED');
    expect((await list(caller.key)).map((key) => key.keyId)).toContain(old.body.keyId);

    await expire(old.body.keyId);
    expect((await gateway.call(path, { key: old.body.key })).status).toBe(401);
    expect((await gateway.call(path, { key: fresh.body.key })).status).toBe(200);
    expect((await list(caller.key)).map((key) => key.keyId)).not.toContain(old.body.keyId);
    expectRejection(await rotate(caller.key, old.body.keyId), 404, 'NOT_FOUND');
  });

  it('disables the old key at once without an overlap, and never extends its lifetime', async () => {
    const caller = await newCaller();
    const expiresAt = Date.now() + 60_000;
    const old = await create(caller.key, { name: 'n', expiresAt });
    const first = await rotate(caller.key, old.body.keyId, {
      overlapSeconds: 3600,
      expiresAt: expiresAt + 60_000,
    });
    expect(first.body).toMatchObject({ expiresAt: expiresAt + 60_000, replaced: { expiresAt } });
    const second = await rotate(caller.key, first.body.keyId, { overlapSeconds: 0 });
    expect(second.body.expiresAt).toBe(expiresAt + 60_000);
    expect((await gateway.call(path, { key: first.body.key })).status).toBe(401);
    expect((await gateway.call(path, { key: second.body.key })).status).toBe(200);
  });

  it('works when the quota is used up, and limits the number of old keys in their overlap', async () => {
    const caller = await newCaller();
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
  });

  it('is rejected for a key with more permissions than the calling key', async () => {
    const owner = await newCaller();
    const narrow = await create(owner.key, { name: 'narrow', scopes: ['keys:write'] });
    expectRejection(await rotate(narrow.body.key, owner.keyId), 403, 'FORBIDDEN');
    expect((await gateway.call(path, { key: owner.key })).status).toBe(200);
    expect((await rotate(narrow.body.key, narrow.body.keyId)).status).toBe(200);
    const stranger = await newCaller();
    expectRejection(await rotate(owner.key, stranger.keyId), 404, 'NOT_FOUND');
  });

  it.each([
    { overlapSeconds: -1 },
    { overlapSeconds: 1.5 },
    { overlapSeconds: 30 * 86_400 + 1 },
    { expiresAt: 5 },
    { name: 'n' },
  ])('rejects %j', async (body) => {
    expectRejection(
      await rotate(gateway.caller.key, gateway.caller.keyId, body),
      400,
      'INVALID_REQUEST',
    );
  });
});

describe('revoking a key during simultaneous key creations', () => {
  it('leaves no key that the list does not show', async () => {
    const caller = await newCaller();
    const thief = await create(caller.key, { name: 'stolen' });
    const [shown, ...attempts] = await whileLocked<unknown>(caller.memberId, async () => {
      // Fewer than the connections that one organization may use.
      const heirs = Array.from({ length: 3 }, (_, index) =>
        create(thief.body.key, { name: `heir ${index}` }),
      );
      await until(async () => (await waitingForLocks()) === heirs.length);
      const revoked = remove(caller.key, thief.body.keyId).then(() => list(caller.key));
      // The revocation waits behind the creations: after the release of the lock it could run first.
      await until(async () => (await waitingForLocks()) === heirs.length + 1);
      return [revoked, ...heirs];
    });
    expect(attempts.map((answer) => (answer as Answer).status)).toEqual([200, 200, 200]);
    // After the response to the revocation, the list is final.
    expect(await list(caller.key)).toEqual(shown);
    expect(shown).toHaveLength(4);
    expect((await create(thief.body.key, { name: 'late' })).status).toBe(401);
  });
});
