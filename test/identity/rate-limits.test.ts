/**
 * Admission counts every request in Postgres, and counts simultaneous requests in one statement.
 * Two access objects over one database stand for two API processes.
 */
import { describe, expect, it } from 'vitest';
import {
  calculateKeyMac,
  createAccess,
  type Access,
  type Caller,
  generateApiKey,
  type RateBucket,
  scopes,
} from '../../identity/access.ts';
import { createBrowserToken } from '../../identity/browser-tokens.ts';
import { createKey, createKeys } from '../../identity/keys.ts';
import { setOrganizationLimits } from '../../identity/organizations.ts';
import { createCaller } from '../harness/callers.ts';
import { useDatabase } from '../harness/database.ts';

const pepper = 'a pepper that is only used in this very test';
const database = useDatabase();

const newKey = () => createCaller(database.pool, pepper);

function newAccess(perMinute: number, factor = 10): Access {
  return createAccess(database.pool, {
    KEY_PEPPER: pepper,
    KEY_PEPPER_PREVIOUS: undefined,
    RATE_LIMIT_PER_MINUTE: perMinute,
    POLL_RATE_LIMIT_PER_MINUTE: perMinute,
    CONSOLE_RATE_LIMIT_PER_MINUTE: 60,
    ORGANIZATION_RATE_FACTOR: factor,
  });
}

describe('the rate limit', () => {
  it('starts a new window one minute after the first request of the previous window', async () => {
    const { key, keyId } = await newKey();
    const access = newAccess(60);
    const hits = async (count: number) => {
      const callers: (Caller | null)[] = [];
      for (let sent = 0; sent < count; sent += 1) {
        // One after the other: each sees those before it.
        callers.push(await access.admit(key, 'requests'));
      }
      return callers.map((caller) => caller?.windows.key.hits ?? 0);
    };
    const wait = (ms: number) =>
      database.query(
        `UPDATE rate_window SET started_at = started_at - ${ms} * interval '1 millisecond'
          WHERE owner_id = '${keyId}'`,
      );
    expect((await hits(30)).at(-1)).toBe(30);
    await wait(50_000);
    expect((await hits(60)).filter((each) => each <= 60)).toHaveLength(30);
    const rejected = await access.admit(key, 'requests');
    const waitMs = (rejected?.windows.key.resetAtMs ?? 0) - (rejected?.nowMs ?? 0);
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(10_000);
    await wait(waitMs);
    expect(await hits(3)).toEqual([1, 2, 3]);
  });

  it('counts each request once, whether requests arrive one by one or together', async () => {
    const { key, keyId } = await newKey();
    const access = newAccess(60);
    const hits = async (count: number) => {
      const admissions = Array.from({ length: count }, () => access.admit(key, 'requests'));
      return (await Promise.all(admissions)).map((caller) => caller?.windows.key.hits);
    };
    const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
    expect(await hits(1)).toEqual([1]);
    expect(await hits(1)).toEqual([2]);
    expect(await hits(38)).toEqual(upTo(40).slice(2));
    expect((await hits(500)).toSorted((a = 0, b = 0) => a - b)).toEqual(upTo(540).slice(40));
    const query = `SELECT hits FROM rate_window WHERE owner_id = '${keyId}'`;
    expect(await database.query(query)).toEqual([{ hits: 540 }]);
  });

  it('counts each request of a process of release 0.1.0, which sends no counts', async () => {
    const { key, keyId } = await newKey();
    await database.query(`SELECT admit_requests(
      array_fill(decode('${calculateKeyMac(key, pepper)}', 'hex'), '{2}'),
      array_fill('requests'::text, '{2}'), array_fill(60, '{2}'),
      '{"requests": 60, "userFactor": 10, "organizationFactor": 10}')`);
    const query = `SELECT hits FROM rate_window WHERE owner_id = '${keyId}'`;
    expect(await database.query(query)).toEqual([{ hits: 2 }]);
  });

  it('of browser tokens is counted by end user, and uses up nothing of the key that made them', async () => {
    const caller = await newKey();
    const { organizationId, userId } = caller;
    const owner = { organizationId, userId, name: 'limited', rateLimit: 4 };
    const limited = await createKey(database.pool, pepper, owner);
    const access = newAccess(5, 10);
    const newToken = async (keyId: string, endUser: string): Promise<string> => {
      const maker = { organizationId, keyId, scopes: [...scopes], allowedModels: null };
      const request = { maker, endUser, expiresInSeconds: 60 };
      return (await createBrowserToken(database.pool, pepper, request)).token;
    };
    const passed = async (token: string, count: number) => {
      const sent = Array.from({ length: count }, () => access.admit(token, 'requests'));
      const rates = (await Promise.all(sent)).map((one) => one && access.findRate(one).remaining);
      return rates.filter((remaining) => remaining !== null && remaining >= 0).length;
    };
    // All tokens of an end user share a window.
    expect(await passed(await newToken(caller.keyId, 'ann'), 4)).toBe(4);
    expect(await passed(await newToken(caller.keyId, 'ann'), 4)).toBe(1);
    for (const endUser of ['bob', 'eve', 'dan'])
      expect(await passed(await newToken(caller.keyId, endUser), 9)).toBe(5);
    expect(await passed(caller.key, 5)).toBe(5);
    // Tokens of a key with a limit have, all together, at most as many requests as the key.
    expect(await passed(await newToken(limited.keyId, 'joe'), 3)).toBe(3);
    expect(await passed(await newToken(limited.keyId, 'sue'), 3)).toBe(1);
    expect(await passed(limited.key, 5)).toBe(4);
    const windows = await database.query<{ id: string; hits: number }>(
      `SELECT owner_id AS id, hits FROM rate_window WHERE owner_id LIKE '%' || $1`,
      [organizationId],
    );
    expect(Object.fromEntries(windows.map(({ id, hits }) => [id, hits]))).toEqual({
      [organizationId]: 9,
      [`tokens/${organizationId}`]: 26,
    });
  });

  it('is separate for each key and each bucket, also for simultaneous requests', async () => {
    const [one, two] = [await newKey(), await newKey()];
    const access = newAccess(60);
    const callers = await Promise.all([
      access.admit(one.key, 'requests'),
      access.admit(generateApiKey(), 'requests'),
      access.admit(two.key, 'requests'),
      access.admit(one.key, 'polls'),
      access.admit(one.key, 'requests'),
      access.admit('no key at all', 'requests'),
    ]);
    expect(callers.map((caller) => caller && [caller.keyId, caller.windows.key.hits])).toEqual([
      [one.keyId, 1],
      null,
      [two.keyId, 1],
      [one.keyId, 1],
      [one.keyId, 2],
      null,
    ]);
  });

  it('of an organization counts the requests of all its keys, but none beyond the limit of a key', async () => {
    const { key, organizationId, userId } = await newKey();
    const owner = { organizationId, userId, name: 'test' };
    const again = await createKey(database.pool, pepper, owner);
    const access = newAccess(10, 2);
    const admit = async (sentKey: string, count: number) => {
      const callers = await Promise.all(
        Array.from({ length: count }, () => access.admit(sentKey, 'requests')),
      );
      return callers.flatMap((caller) => (caller ? [access.findRate(caller)] : []));
    };
    const passed = (rates: { remaining: number }[]) =>
      rates.filter(({ remaining }) => remaining >= 0).length;
    // The 90 rejected requests of the first key use up nothing of the second one's.
    expect(passed(await admit(key, 100))).toBe(10);
    expect(passed(await admit(again.key, 6))).toBe(6);
    const third = await createKey(database.pool, pepper, owner);
    const rates = await admit(third.key, 10);
    expect(passed(rates)).toBe(4);
    expect(rates.map(({ limit, remaining }) => [limit, remaining])).toContainEqual([20, 0]);
  });

  describe('that was set', () => {
    /** Admits requests at once. Returns the limit of the window that binds, and how many passed. */
    const send = async (
      access: Access,
      key: string,
      count: number,
      bucket: RateBucket = 'requests',
    ) => {
      const sent = Array.from({ length: count }, () => access.admit(key, bucket));
      const rates = (await Promise.all(sent)).flatMap((each) =>
        each ? [access.findRate(each)] : [],
      );
      const least = rates.toSorted((one, other) => one.remaining - other.remaining)[0];
      return [least?.limit, rates.filter(({ remaining }) => remaining >= 0).length];
    };
    const getKeys = () => createKeys(database.pool, pepper);
    const setKey = (keyId: string, rateLimit: number | null) =>
      getKeys().setLimits({ keyId, userId: null, actingKeyId: null, rateLimit });
    const setOrganization = (organizationId: string, rateLimit: number | null) =>
      setOrganizationLimits(database.pool, organizationId, { rateLimit });
    const rest = () =>
      database.query(`UPDATE rate_window SET started_at = started_at - interval '1 minute'`);

    it('for a key counts instead of the default, lower or higher, until it is removed', async () => {
      const { key, keyId } = await newKey();
      const access = newAccess(10);
      await setKey(keyId, 3);
      expect(await send(access, key, 20)).toEqual([3, 3]);
      // Reads of jobs are never reduced; they are raised in proportion.
      expect(await send(access, key, 12, 'polls')).toEqual([10, 10]);
      await setKey(keyId, 30);
      expect(await send(access, key, 50)).toEqual([30, 10]);
      await rest();
      expect(await send(access, key, 50)).toEqual([30, 30]);
      expect(await send(access, key, 50, 'polls')).toEqual([30, 30]);
      await rest();
      await setKey(keyId, null);
      expect(await send(access, key, 50)).toEqual([10, 10]);
    });

    it('for an organization binds its keys, also those that may make more', async () => {
      const { key, keyId, organizationId } = await newKey();
      const access = newAccess(10);
      await setKey(keyId, 1000);
      // Without a limit of its own, the organization has ten times a key's.
      expect(await send(access, key, 150)).toEqual([100, 100]);
      await rest();
      await setOrganization(organizationId, 4);
      expect(await send(access, key, 20)).toEqual([4, 4]);
      await rest();
      await setOrganization(organizationId, 500);
      expect(await send(access, key, 150)).toEqual([500, 150]);
      await rest();
      await setOrganization(organizationId, null);
      expect(await send(access, key, 150)).toEqual([100, 100]);
    });

    it('for a key leaves other keys of the user their requests', async () => {
      const { key, userId, organizationId } = await newKey();
      const raised = await createKey(database.pool, pepper, { userId, name: 'r', rateLimit: 200 });
      await setOrganization(organizationId, 100_000);
      const access = newAccess(10);
      expect(await send(access, raised.key, 150)).toEqual([200, 150]);
      expect(await send(access, key, 10)).toEqual([10, 10]);
    });

    it('for a key is shared by the keys that replace it and that it creates', async () => {
      const { keyId, userId } = await newKey();
      const limited = await createKey(database.pool, pepper, { userId, name: 'l', rateLimit: 5 });
      const acting = { userId, actingKeyId: limited.keyId };
      const child = await getKeys().create({ ...acting, name: 'child' });
      const { keyId: rotatedId } = limited;
      const next = await getKeys().rotate({
        userId,
        actingKeyId: keyId,
        keyId: rotatedId,
        overlapMs: 60_000,
      });
      expect([child.meta.rateLimit, next.meta.rateLimit]).toEqual([5, 5]);
      const access = newAccess(60);
      const sent = [limited.key, child.key, next.key].map((each) => send(access, each, 4));
      const passed = (await Promise.all(sent)).reduce((sum, [, count = 0]) => sum + count, 0);
      expect(passed).toBe(5);
    });
  });

  it.each(['rotated', 'new'])(
    'of a %s key continues in the window of the key that made it',
    async (kind) => {
      const { key, keyId, userId } = await newKey();
      const access = newAccess(60);
      for (let sent = 0; sent < 50; sent += 1) await access.admit(key, 'requests');
      const keys = createKeys(database.pool, pepper);
      const acting = { userId, actingKeyId: keyId, name: 'next' };
      const next =
        kind === 'new'
          ? await keys.create(acting)
          : await keys.rotate({ ...acting, keyId, overlapMs: 0 });
      expect(await access.admit(next.key, 'requests')).toMatchObject({
        windows: { key: { hits: 51 }, user: { hits: 51 }, organization: { hits: 51 } },
      });
    },
  );
});
