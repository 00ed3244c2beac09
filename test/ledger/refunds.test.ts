/** Refunds: never more than was charged, under parallel and repeated requests. */
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { by, useLedger } from './use-ledger.ts';

const ledgers = useLedger();

/** Creates a reservation of 60 out of 100 micro-credits, and settles it unless `to` is absent. */
async function reservation(to?: 'charged' | 'released') {
  const of = await ledgers.newHolder(100, 1000);
  const { organizationId } = of;
  const id = newId('job');
  await ledgers.reserve(of, 60, { id });
  if (to) await ledgers.settle(of, id, to === 'charged' ? 50 : null);
  return {
    organizationId,
    id,
    refund: (refundId: string, amountMicro?: number, from = ledgers.ledger) =>
      from.refund({ organizationId, id, refundId, amountMicro, ...by }),
    posted: async () => (await ledgers.database.balance(organizationId))?.posted,
  };
}

describe('refunds of a charged reservation', () => {
  it('give back a part, and then all that is left', async () => {
    const { organizationId, id, refund } = await reservation('charged');
    expect(await refund('a', 20)).toMatchObject({ repeated: false, amount: 20, refunded: 20 });
    expect(await refund('b')).toMatchObject({ repeated: false, amount: 30, refunded: 50 });
    const balance = await ledgers.database.balance(organizationId);
    expect(balance).toMatchObject({ posted: 100, reserved: 0 });
    const entries = await ledgers.query(
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
    expect(await ledgers.readWindow({ organizationId })).toBe(50);
  });

  it('have one effect per id, whether the amount is named or not', async () => {
    const { refund, posted } = await reservation('charged');
    await refund('a', 20);
    await refund('b');
    const repeated = { verdict: 'refunded', repeated: true };
    const mismatch = { verdict: 'mismatch' };
    expect(await refund('a', 20)).toMatchObject(repeated);
    expect(await refund('b', 30)).toMatchObject(repeated);
    expect(await refund('b')).toMatchObject(repeated);
    expect(await refund('a', 21)).toEqual(mismatch);
    expect(await refund('a')).toEqual(mismatch);
    expect(await refund('b', 29)).toEqual(mismatch);
    expect(await posted()).toBe(100);
  });

  it('that are larger than the charge are rejected, not reduced', async () => {
    const { refund, posted } = await reservation('charged');
    const rejection = { verdict: 'not_refundable', state: 'charged', charged: 50 };
    expect(await refund('a', 51)).toEqual({ ...rejection, refunded: 0 });
    await refund('b', 30);
    expect(await refund('c', 21)).toEqual({ ...rejection, refunded: 30 });
    expect(await refund('d', 0)).toMatchObject(rejection);
    await refund('e', 20);
    expect(await refund('f')).toEqual({ ...rejection, refunded: 50 });
    expect(await posted()).toBe(100);
  });

  it.each([
    ['never exceed the charge when 200 arrive', (index: number) => `r${index}`, 7, 99],
    ['have one effect when one id arrives 200 times', () => 'r', 1, 57],
  ])('%s at the same time from two processes', async (_title, idOf, granted, left) => {
    const { refund, posted } = await reservation('charged');
    const { ledger, other } = ledgers;
    const verdicts = await Promise.all(
      Array.from({ length: 200 }, (_, index) => refund(idOf(index), 7, index % 2 ? ledger : other)),
    );
    const first = verdicts.filter((one) => one.verdict === 'refunded' && !one.repeated);
    expect(first).toHaveLength(granted);
    expect(await posted()).toBe(left);
  });
});

describe('a refund is rejected', () => {
  it.each([
    ['open', undefined, 'reserved', 40],
    ['released', 'released', 'released', 100],
  ] as const)('for an %s reservation', async (_, to, state, available) => {
    const { organizationId, refund } = await reservation(to);
    const rejection = { verdict: 'not_refundable', state, charged: 0, refunded: 0 };
    for (const amount of [1, undefined]) expect(await refund('a', amount)).toEqual(rejection);
    expect(await ledgers.database.balance(organizationId)).toMatchObject({ available });
  });

  it('for a reservation of another organization, and for none', async () => {
    const { id } = await reservation('charged');
    const { organizationId } = await reservation('charged');
    for (const wrong of [id, newId('job')]) {
      const refund = { organizationId, id: wrong, refundId: 'a', amountMicro: 1, ...by };
      expect(await ledgers.ledger.refund(refund)).toEqual({ verdict: 'not_reserved' });
    }
  });

  it('by the database, if a statement refunds more than the charge or an uncharged reservation', async () => {
    for (const to of ['charged', 'released', undefined] as const) {
      const { id } = await reservation(to);
      const statement = 'UPDATE reservation SET refunded = 51 WHERE id = $1';
      await expect(ledgers.query(statement, [id])).rejects.toThrow('check');
    }
  });
});
