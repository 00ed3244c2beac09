/** Refunds: never more than was charged, under parallel and repeated requests. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pools: DatabasePool[];
let ledgers: Ledger[];

beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  const open = () => openDatabase({ url: database.url, poolMax: 4, logger });
  pools = [await open(), await open()];
  ledgers = pools.map((pool) => createLedger(pool));
});
afterEach(async () => expect(await database.audit()).toEqual([]));
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await database.drop();
});

/** Ledger of one of two processes, whose batches race with each other. */
const ledger = (index = 0): Ledger => ledgers[index % 2] as Ledger;

/** Creates a reservation of 60 out of 100 micro-credits, and settles it unless `to` is absent. */
async function reservation(to?: 'charged' | 'released') {
  const [pool] = pools as [DatabasePool];
  const made = await createOrganization(pool, { name: 'refunds', windowLimitMicro: 1000 });
  const { organizationId } = made;
  const id = newId('job');
  const by = { actor: 'test', reason: 'test' };
  await ledger().grant({ organizationId, id: 'g', amountMicro: 100, ...by });
  await ledger().reserve({ organizationId, id, kind: 'studio', amountMicro: 60, ttlMs: 60_000 });
  if (to) {
    await ledger().settle({ organizationId, id, to, amountMicro: 50, reason: 'test' });
  }
  const refund = (refundId: string, amountMicro?: number, from = 0) =>
    ledger(from).refund({ organizationId, id, refundId, amountMicro, ...by });
  return { organizationId, id, refund };
}

describe('refunds of a charged reservation', () => {
  it('give back a part, and then all that is left', async () => {
    const { organizationId, id, refund } = await reservation('charged');
    expect(await refund('a', 20)).toMatchObject({ repeated: false, amount: 20, refunded: 20 });
    expect(await refund('b')).toMatchObject({ repeated: false, amount: 30, refunded: 50 });
    expect(await database.balance(organizationId)).toMatchObject({ posted: 100, reserved: 0 });
    const entries = await database.query(
      `SELECT kind, posted_change::integer AS posted, reserved_change::integer AS reserved
        FROM ledger_entry WHERE reservation_id = $1 ORDER BY sequence`,
      [id],
    );
    expect(entries.map((entry) => Object.values(entry))).toEqual([
      ['reserve', 0, 60],
      ['charge', -50, -60],
      ['refund', 20, 0],
      ['refund', 30, 0],
    ]);
    const [account] = await database.query(
      'SELECT window_used::integer AS used FROM account WHERE organization_id = $1',
      [organizationId],
    );
    expect(account).toEqual({ used: 50 });
  });

  it('have one effect per id, whether the amount is named or not', async () => {
    const { organizationId, refund } = await reservation('charged');
    await refund('a', 20);
    await refund('b');
    for (const [id, amount] of [
      ['a', 20],
      ['b', 30],
      ['b', undefined],
    ] as const) {
      expect(await refund(id, amount)).toMatchObject({ verdict: 'refunded', repeated: true });
    }
    for (const [id, amount] of [
      ['a', 21],
      ['a', undefined],
      ['b', 29],
    ] as const) {
      expect(await refund(id, amount)).toEqual({ verdict: 'mismatch' });
    }
    expect(await database.balance(organizationId)).toMatchObject({ posted: 100 });
  });

  it('that are larger than the charge are refused, not reduced', async () => {
    const { organizationId, refund } = await reservation('charged');
    const refusal = { verdict: 'not_refundable', state: 'charged', charged: 50 };
    expect(await refund('a', 51)).toEqual({ ...refusal, refunded: 0 });
    await refund('b', 30);
    expect(await refund('c', 21)).toEqual({ ...refusal, refunded: 30 });
    expect(await refund('d', 0)).toMatchObject(refusal);
    await refund('e', 20);
    expect(await refund('f')).toEqual({ ...refusal, refunded: 50 });
    expect(await database.balance(organizationId)).toMatchObject({ posted: 100 });
  });

  it('never exceed the charge when 200 arrive at the same time from two processes', async () => {
    const { organizationId, refund } = await reservation('charged');
    const verdicts = await Promise.all(
      Array.from({ length: 200 }, (_, index) => refund(`r${index}`, 7, index)),
    );
    expect(verdicts.filter(({ verdict }) => verdict === 'refunded')).toHaveLength(7);
    expect(await database.balance(organizationId)).toMatchObject({ posted: 99 });
  });

  it('have one effect when one id arrives 200 times', async () => {
    const { organizationId, refund } = await reservation('charged');
    const verdicts = await Promise.all(
      Array.from({ length: 200 }, (_, index) => refund('r', 7, index)),
    );
    const first = verdicts.filter((one) => one.verdict === 'refunded' && !one.repeated);
    expect(first).toHaveLength(1);
    expect(await database.balance(organizationId)).toMatchObject({ posted: 57 });
  });
});

describe('a refund is refused', () => {
  it.each([
    ['open', undefined, 'reserved', 40],
    ['released', 'released', 'released', 100],
  ] as const)('for an %s reservation', async (_, to, state, available) => {
    const { organizationId, refund } = await reservation(to);
    for (const amount of [1, undefined]) {
      expect(await refund('a', amount)).toEqual({
        verdict: 'not_refundable',
        state,
        charged: 0,
        refunded: 0,
      });
    }
    expect(await database.balance(organizationId)).toMatchObject({ available });
  });

  it('for a reservation of another organization, and for none', async () => {
    const { id } = await reservation('charged');
    const other = await reservation('charged');
    const refund = { refundId: 'a', amountMicro: 1, actor: 'test', reason: 'test' };
    const { organizationId } = other;
    for (const wrong of [id, newId('job')]) {
      await expect(ledger().refund({ organizationId, id: wrong, ...refund })).rejects.toThrow(
        'not_reserved',
      );
    }
  });

  it('by the database, if a statement refunds more than the charge or an uncharged reservation', async () => {
    for (const to of ['charged', 'released', undefined] as const) {
      const { id } = await reservation(to);
      const statement = 'UPDATE reservation SET refunded = 51 WHERE id = $1';
      await expect(database.query(statement, [id])).rejects.toThrow('check');
    }
  });
});
