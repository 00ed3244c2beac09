/** The edges of the six-hour window: released credits return to the window of their reservation. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let ledger: Ledger;
beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  ledger = createLedger(pool);
});
afterEach(async () => expect(await database.audit()).toEqual([]));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

async function organization(windowLimitMicro = 100): Promise<string> {
  const { organizationId } = await createOrganization(pool, { name: 'window', windowLimitMicro });
  const grant = { organizationId, id: 'g', amountMicro: 10_000, actor: 'test', reason: 'test' };
  await ledger.grant(grant);
  return organizationId;
}

async function reserve(organizationId: string, amountMicro: number) {
  const id = newId('job');
  const verdict = await ledger.reserve({
    organizationId,
    id,
    kind: 'studio',
    amountMicro,
    ttlMs: 60_000,
  });
  return { id, verdict };
}

const settle = (organizationId: string, id: string, amountMicro: number | null) =>
  ledger.settle({
    organizationId,
    id,
    to: amountMicro === null ? 'released' : 'charged',
    amountMicro: amountMicro ?? 0,
    reason: 'test',
  });

/** Moves the window and its reservations into the past. */
async function age(organizationId: string, interval: string): Promise<void> {
  for (const table of ['account', 'reservation']) {
    await database.query(
      `UPDATE ${table} SET window_started_at = window_started_at - $2::interval
       WHERE organization_id = $1`,
      [organizationId, interval],
    );
  }
}

async function used(organizationId: string): Promise<number> {
  const [account] = await database.query<{ window_used: string }>(
    'SELECT window_used FROM account WHERE organization_id = $1',
    [organizationId],
  );
  return Number(account?.window_used);
}

async function resetAt(organizationId: string): Promise<number> {
  const { verdict } = await reserve(organizationId, 100);
  if (verdict.verdict !== 'window_exhausted') throw new Error('the window is not exhausted');
  return Date.parse(verdict.resetAt);
}

describe('a reservation that is open when its window ends', () => {
  it.each([
    ['released', null],
    ['charged in part', 30],
    ['charged in full', 80],
  ])('and is %s later does not change the new window', async (_, charge) => {
    const organizationId = await organization();
    const old = await reserve(organizationId, 80);
    await age(organizationId, '6 hours');
    const next = await reserve(organizationId, 60);
    expect(next.verdict.verdict).toBe('reserved');
    await settle(organizationId, old.id, charge);
    expect(await used(organizationId)).toBe(60);
    await settle(organizationId, next.id, null);
    expect(await used(organizationId)).toBe(0);
  });
});

describe('inside one window', () => {
  it.each([
    ['a release gives all back', null, 100],
    ['a partial charge gives the rest back', 30, 70],
    ['a full charge gives nothing back', 80, 20],
    ['a charge of nothing gives all back', 0, 100],
  ])('%s', async (_, charge, left) => {
    const organizationId = await organization();
    const first = await reserve(organizationId, 80);
    await settle(organizationId, first.id, charge);
    expect((await reserve(organizationId, left + 1)).verdict.verdict).toBe(
      left + 1 > 100 ? 'window_limit_exceeded' : 'window_exhausted',
    );
    expect((await reserve(organizationId, left)).verdict.verdict).toBe('reserved');
  });
});

describe('the end of a window', () => {
  it('is not reported as a wait if the price exceeds the whole limit', async () => {
    const organizationId = await organization();
    const { verdict } = await reserve(organizationId, 101);
    expect(verdict).toMatchObject({ verdict: 'window_limit_exceeded', required: 101, limit: 100 });
  });

  it('comes six hours after the first reservation, and never moves earlier', async () => {
    const organizationId = await organization();
    const first = await reserve(organizationId, 10);
    // A reservation of the whole limit is refused then.
    await reserve(organizationId, 1);
    const end = await resetAt(organizationId);
    const createdAt =
      first.verdict.verdict === 'reserved' ? Date.parse(first.verdict.createdAt) : 0;
    expect(end - createdAt).toBeCloseTo(6 * 3_600_000, -2);
    await settle(organizationId, first.id, null);
    expect(await resetAt(organizationId)).toBe(end);
    await age(organizationId, '5 hours 59 minutes 50 seconds');
    const soon = await resetAt(organizationId);
    expect(soon).toBeGreaterThan(Date.now());
    await age(organizationId, '10 seconds');
    await reserve(organizationId, 10);
    expect(await resetAt(organizationId)).toBeGreaterThan(soon);
  });

  it.each([
    ['5 hours 59 minutes 58 seconds', 'window_exhausted'],
    ['6 hours', 'reserved'],
    ['8 days', 'reserved'],
  ])('after %s: %s', async (interval, verdict) => {
    const organizationId = await organization();
    await reserve(organizationId, 100);
    await age(organizationId, interval);
    expect((await reserve(organizationId, 100)).verdict.verdict).toBe(verdict);
  });

  it('is the same for all parallel requests', async () => {
    const organizationId = await organization();
    await reserve(organizationId, 100);
    await age(organizationId, '6 hours');
    const raced = await Promise.all(Array.from({ length: 200 }, () => reserve(organizationId, 10)));
    const granted = raced.filter(({ verdict }) => verdict.verdict === 'reserved');
    expect(granted).toHaveLength(10);
    const ends = raced.flatMap(({ verdict }) =>
      verdict.verdict === 'window_exhausted' ? [verdict.resetAt] : [],
    );
    expect(new Set(ends).size).toBe(1);
  });
});
