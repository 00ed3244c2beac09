/**
 * Admissions in advance: a busy key is asked about a few times a second, whatever it is used for. Two
 * accesses over one database stand for two API processes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createAccess, type Access, type Caller } from '../../api/identity/access.ts';
import { createKey, createOrganization } from '../../api/identity/accounts.ts';
import { createKeys } from '../../api/identity/keys.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

const pepper = 'a pepper that is only used in this very test';
let database: TestDatabase;
let pool: DatabasePool;

beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

async function newKey(expiresAtMs?: number) {
  const made = await createOrganization(pool, { name: 'Test', windowLimitMicro: null });
  const wanted = { ...made, name: 'test', ...(expiresAtMs !== undefined && { expiresAtMs }) };
  return { ...made, ...(await createKey(pool, pepper, wanted)) };
}

function newAccess(perMinute: number): Access {
  return createAccess(pool, { pepper, limits: { requests: perMinute, polls: perMinute } });
}

/** How many of so many requests are within the limit. */
async function passing(access: Access, key: string, wanted: { count: number; limit: number }) {
  let passed = 0;
  for (let asked = 0; asked < wanted.count; asked += 50) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => access.admit(key, 'requests')),
    );
    passed += answers.filter((caller) => caller && caller.hits <= wanted.limit).length;
  }
  return passed;
}

async function hitsOf(keyId: string): Promise<number> {
  const [row] = await database.query<{ hits: number }>(
    'SELECT hits FROM rate_window WHERE key_id = $1',
    [keyId],
  );
  return row?.hits ?? 0;
}

/** Uses the key until admissions of it are there in advance. */
async function warmUp(access: Access, { key, keyId }: { key: string; keyId: string }) {
  let used = 0;
  await expect
    .poll(
      async () => {
        await access.admit(key, 'requests');
        used += 1;
        return (await hitsOf(keyId)) - used;
      },
      { interval: 5 },
    )
    .toBeGreaterThan(0);
}

describe('the rate limit', () => {
  it('lets exactly as many pass as it says, through two processes that count in blocks', async () => {
    const limit = 3000;
    const { key } = await newKey();
    const [one, two] = [newAccess(limit), newAccess(limit)];
    const wanted = { count: 2000, limit };
    const passed = await Promise.all([passing(one, key, wanted), passing(two, key, wanted)]);
    expect(passed[0] + passed[1]).toBe(limit);
  });

  it('lets no 60 seconds hold more, wherever they begin', async () => {
    const { key, keyId } = await newKey();
    const access = newAccess(60);
    const hits = async (count: number) => {
      const callers: (Caller | null)[] = [];
      for (let asked = 0; asked < count; asked += 1) {
        // One after the other: each sees those before it.
        callers.push(await access.admit(key, 'requests'));
      }
      return callers.map((caller) => caller?.hits ?? 0);
    };
    const wait = (ms: number) =>
      database.query(
        `UPDATE rate_window SET times = (SELECT array_agg(t - ${ms} ORDER BY t) FROM unnest(times) t)
          WHERE key_id = '${keyId}'`,
      );
    expect((await hits(30)).at(-1)).toBe(30);
    await wait(50_000);
    // The turn of a minute changes nothing: 30 of these are over the limit, and do not count.
    expect((await hits(60)).filter((each) => each <= 60)).toHaveLength(30);
    const refused = await access.admit(key, 'requests');
    expect(refused?.hits).toBe(61);
    const waitMs = (refused?.resetAtMs ?? 0) - (refused?.nowMs ?? 0);
    expect(waitMs).toBeGreaterThan(5000);
    expect(waitMs).toBeLessThanOrEqual(10_000);
    await wait(waitMs);
    // As long as the refusal said, and there is room: for the first 30, and no more.
    await wait(20_000);
    expect((await hits(40)).filter((each) => each <= 60)).toHaveLength(30);
  });

  it('counts one by one where the limit is small: nothing is set aside for nobody', async () => {
    const { key, keyId } = await newKey();
    const access = newAccess(60);
    for (let asked = 1; asked <= 30; asked += 1) {
      const caller = await access.admit(key, 'requests');
      expect(caller?.hits).toBe(asked);
    }
    expect(await hitsOf(keyId)).toBe(30);
  });

  it('sets aside no more than a 64th of what is left', async () => {
    const { key, keyId } = await newKey();
    await passing(newAccess(6400), key, { count: 300, limit: 6400 });
    const aside = (await hitsOf(keyId)) - 300;
    expect(aside).toBeGreaterThanOrEqual(0);
    expect(aside).toBeLessThanOrEqual(100);
  });
});

describe('a busy key', () => {
  it('is refused by every process within half a second of its revocation, and from then on', async () => {
    const made = await newKey();
    const access = newAccess(1_000_000);
    // So busy that there is more in advance than is asked for below.
    await passing(access, made.key, { count: 3000, limit: 1_000_000 });
    expect(await hitsOf(made.keyId)).toBeGreaterThan(3500);
    await createKeys(pool, pepper).revoke(made.keyId, null);
    const revokedAtMs = performance.now();
    const late: (Caller | null)[] = [];
    while (performance.now() - revokedAtMs < 1300) {
      const atMs = performance.now() - revokedAtMs;
      const caller = await access.admit(made.key, 'requests');
      if (atMs > 500) late.push(caller);
      await sleep(5);
    }
    expect(late.length).toBeGreaterThan(10);
    expect(late.filter(Boolean)).toEqual([]);
  });

  it('is admitted no longer by a process that cannot ask whether it still may', async () => {
    const made = await newKey();
    const access = newAccess(1_000_000);
    await passing(access, made.key, { count: 3000, limit: 1_000_000 });
    const blocker = new Client({ connectionString: database.url });
    await blocker.connect();
    onTestFinished(() => blocker.end());
    // Whoever asks now hears nothing.
    await blocker.query('BEGIN');
    await blocker.query('LOCK TABLE organization IN ACCESS EXCLUSIVE MODE');
    await createKeys(pool, pepper).revoke(made.keyId, null);
    const revokedAtMs = performance.now();
    const admitted: number[] = [];
    const asked: Promise<void>[] = [];
    while (performance.now() - revokedAtMs < 1200) {
      const atMs = performance.now() - revokedAtMs;
      const noteAdmitted = async () => {
        if (await access.admit(made.key, 'requests')) admitted.push(atMs);
      };
      asked.push(noteAdmitted());
      await sleep(5);
    }
    await blocker.query('ROLLBACK');
    await Promise.all(asked);
    expect(admitted.length).toBeGreaterThan(10);
    expect(Math.max(...admitted)).toBeLessThanOrEqual(500);
  });

  it('is refused at once by the process that is told of it', async () => {
    const made = await newKey();
    const access = newAccess(1_000_000);
    await warmUp(access, made);
    await createKeys(pool, pepper).revoke(made.keyId, null);
    access.forget();
    expect(await access.admit(made.key, 'requests')).toBeNull();
  });

  it('ends when it expires, not when its admissions do', async () => {
    const expiresAtMs = Date.now() + 1500;
    const made = await newKey(expiresAtMs);
    const access = newAccess(1_000_000);
    await warmUp(access, made);
    while (Date.now() < expiresAtMs + 30) {
      await access.admit(made.key, 'requests');
      await sleep(2);
    }
    expect(await access.admit(made.key, 'requests')).toBeNull();
  });
});
