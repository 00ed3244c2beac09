/** The edges of the six-hour window: released credits return to the window of their reservation. */
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { throwRejection } from '../../ledger/ledger.ts';
import { useLedger, type Holder } from './use-ledger.ts';

const ledgers = useLedger();
const newHolder = () => ledgers.newHolder(10_000, 100);

async function reserve(of: Holder, amountMicro: number) {
  const id = newId('job');
  return { id, verdict: await ledgers.reserve(of, amountMicro, { id }) };
}
const getReserveVerdict = async (of: Holder, amountMicro: number) =>
  (await reserve(of, amountMicro)).verdict.verdict;

/** Moves the window and its reservations into the past. */
async function age({ organizationId }: Holder, interval: string): Promise<void> {
  for (const table of ['account', 'reservation']) {
    await ledgers.query(
      `UPDATE ${table} SET window_started_at = window_started_at - $2::interval
       WHERE organization_id = $1`,
      [organizationId, interval],
    );
  }
}

async function resetAt(of: Holder): Promise<number> {
  const { verdict } = await reserve(of, 100);
  if (verdict.verdict !== 'window_exhausted') throw new Error('the window is not exhausted');
  // `Retry-After` is not shorter than the rest of the window.
  const waitMs = Date.parse(verdict.resetAt) - Date.parse(verdict.now);
  const retryAfterSeconds = Math.ceil(waitMs / 1000);
  expect(() => throwRejection(verdict)).toThrow(expect.objectContaining({ retryAfterSeconds }));
  return Date.parse(verdict.resetAt);
}

it.each([
  ['released', null],
  ['charged in part', 30],
  ['charged in full', 80],
])(
  'a reservation that is open when its window ends and is %s later does not change the new window',
  async (_, charge) => {
    const of = await newHolder();
    const old = await reserve(of, 80);
    await age(of, '6 hours');
    const next = await reserve(of, 60);
    expect(next.verdict.verdict).toBe('reserved');
    await ledgers.settle(of, old.id, charge);
    expect(await ledgers.readWindow(of)).toBe(60);
    await ledgers.settle(of, next.id, null);
    expect(await ledgers.readWindow(of)).toBe(0);
  },
);

describe('the end of a window', () => {
  it('comes six hours after the first reservation, and never moves earlier', async () => {
    const of = await newHolder();
    const { id, verdict } = await reserve(of, 10);
    // A reservation of the whole limit is rejected then.
    await reserve(of, 1);
    const end = await resetAt(of);
    const createdAt = verdict.verdict === 'reserved' ? Date.parse(verdict.createdAt) : 0;
    expect(end - createdAt).toBeCloseTo(6 * 3_600_000, -2);
    await ledgers.settle(of, id, null);
    expect(await resetAt(of)).toBe(end);
    await age(of, '5 hours 59 minutes 50.7 seconds');
    const soon = await resetAt(of);
    expect(soon).toBeGreaterThan(Date.now());
    await age(of, '10 seconds');
    await reserve(of, 10);
    expect(await resetAt(of)).toBeGreaterThan(soon);
  });

  it.each([
    ['5 hours 59 minutes 58 seconds', 'window_exhausted'],
    ['6 hours', 'reserved'],
    ['8 days', 'reserved'],
  ])('after %s: %s', async (interval, verdict) => {
    const of = await newHolder();
    await reserve(of, 100);
    await age(of, interval);
    expect(await getReserveVerdict(of, 100)).toBe(verdict);
  });
});
