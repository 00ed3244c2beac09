/**
 * The ledger under random moves, parallel moves and repetition: never overspent, never settled
 * twice.
 */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { createSettlements, observeLedger } from '../../ledger/observed-ledgers.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createMetrics } from '../../platform/metrics.ts';
import { by, useLedger } from './use-ledger.ts';

const ledgers = useLedger();
const either = (index: number) => (index % 2 ? ledgers.ledger : ledgers.other);
const inParallel = <Result>(count: number, move: (index: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, index) => move(index)));

it('a grant adds credits once when the same id arrives several times, in sequence or in parallel', async () => {
  const { organizationId } = await ledgers.newHolder(0);
  const grant = { organizationId, id: 'g', amountMicro: 10, ...by };
  const verdicts = await inParallel(20, (index) => either(index).grant(grant));
  expect(verdicts.map(({ verdict }) => verdict)).toEqual(Array(20).fill('granted'));
  expect(await ledgers.database.balance(organizationId)).toMatchObject({ posted: 10 });
  const changed = await ledgers.ledger.grant({ ...grant, amountMicro: 11 });
  expect(changed).toMatchObject({ verdict: 'mismatch' });
});

describe('1,000 parallel reservations', () => {
  it('from two processes on a balance for 10 succeed exactly 10 times', async () => {
    const of = await ledgers.newHolder(10);
    const verdicts = await inParallel(1000, (index) =>
      ledgers.reserve(of, 1, { from: either(index) }),
    );
    expect(verdicts.filter(({ verdict }) => verdict === 'reserved')).toHaveLength(10);
    const balance = await ledgers.database.balance(of.organizationId);
    expect(balance).toEqual({ posted: 10, reserved: 10, available: 0 });
  });

  it('with the same id create one reservation', async () => {
    const of = await ledgers.newHolder(100);
    const id = newId('job');
    const metrics = createMetrics();
    const observers = { metrics, settlements: { add: () => {} } };
    const verdicts = await inParallel(1000, (index) =>
      ledgers.reserve(of, 7, { id, from: observeLedger(either(index), observers) }),
    );
    const first = verdicts.filter((verdict) => verdict.verdict === 'reserved' && !verdict.repeated);
    expect(first).toHaveLength(1);
    expect(await ledgers.database.balance(of.organizationId)).toMatchObject({ reserved: 7 });
    expect((await metrics.creditsReserved.get()).values).toMatchObject([{ value: 7 / 1e6 }]);
  });
});

it('1,000 parallel settlements of one reservation have exactly one effect', async () => {
  const of = await ledgers.newHolder(100);
  const id = newId('job');
  await ledgers.reserve(of, 60, { id });
  const verdicts = await inParallel(1000, (index) =>
    ledgers.settle(of, id, index % 3 ? 25 : null, { from: either(index) }),
  );
  expect(verdicts.filter(({ verdict }) => verdict === 'settled')).toHaveLength(1);
  const balance = await ledgers.database.balance(of.organizationId);
  expect([75, 100]).toContain(balance?.posted);
  expect(balance?.reserved).toBe(0);
});

it('settlements whose rows cannot be read, and those that follow meanwhile, are counted later', async () => {
  const of = await ledgers.newHolder(100);
  const metrics = createMetrics();
  const pool: { any: unknown } = {
    any: () => settle().then(() => Promise.reject(new Error('away'))),
  };
  const observers = { metrics, logger: createLogger('test', 'silent') };
  const settlements = createSettlements(pool as DatabasePool, observers);
  const settle = async () => {
    const id = newId('job');
    await ledgers.reserve(of, 10, { id, hasJob: true });
    await ledgers.settle(of, id, null, { hasJob: true });
    settlements.add(id);
  };
  await settle();
  await metrics.page();
  pool.any = ledgers.pool.any;
  await metrics.page();
  expect((await metrics.creditsReleased.get()).values).toMatchObject([{ value: 20 / 1e6 }]);
});

describe('an invalid move', () => {
  it('is rejected and changes nothing', async () => {
    const of = await ledgers.newHolder(100);
    const id = newId('job');
    await ledgers.reserve(of, 10, { id });
    await expect(ledgers.reserve(of, 11, { id })).rejects.toThrow('mismatch');
    const stranger = { ...of, organizationId: newId('organization') };
    await expect(ledgers.reserve(stranger, 1)).rejects.toThrow('no_account');
    const unknown = await ledgers.settle(of, newId('job'), 1);
    expect(unknown).toMatchObject({ verdict: 'not_reserved' });
    for (const amount of [-1, 0.5]) {
      await expect(ledgers.reserve(of, amount)).rejects.toThrow('non-negative integer');
    }
    await ledgers.settle(of, id, null);
  });

  it('fails alone: the other moves of its batch are applied', async () => {
    const of = await ledgers.newHolder(100);
    const { organizationId } = of;
    // This one raises an error inside Postgres.
    const bad = { organizationId, kind: 'studio', amountMicro: 1, ttlMs: Number.NaN } as const;
    const ended = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) =>
        index === 7 ? ledgers.ledger.reserve({ ...bad, id: newId('job') }) : ledgers.reserve(of, 1),
      ),
    );
    expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(await ledgers.database.balance(organizationId)).toMatchObject({ reserved: 19 });
  });

  it.each([
    ['UPDATE ledger_entry SET posted_change = 1', 'append-only'],
    ['DELETE FROM ledger_entry', 'append-only'],
    [
      `INSERT INTO ledger_entry SELECT organization_id, sequence + 1, 'x', 'reserve', NULL, 0, 101,
        posted_after, 101, actor, reason, created_at FROM ledger_entry`,
      'check',
    ],
  ])('cannot be written around the ledger functions: %s', async (statement, rejection) => {
    const { organizationId } = await ledgers.newHolder(100);
    const text = `${statement} WHERE organization_id = $1`;
    await expect(ledgers.query(text, [organizationId])).rejects.toThrow(rejection);
  });
});

type Command =
  | { verb: 'grant'; amount: number }
  | { verb: 'reserve'; job: number; amount: number }
  | { verb: 'charge'; job: number; share: number }
  | { verb: 'release'; job: number };
const job = fc.nat(12);
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ verb: fc.constant('grant' as const), amount: fc.integer({ min: 1, max: 300 }) }),
  fc.record({ verb: fc.constant('reserve' as const), job, amount: fc.nat(220) }),
  fc.record({ verb: fc.constant('charge' as const), job, share: fc.nat(100) }),
  fc.record({ verb: fc.constant('release' as const), job }),
);

const findRejection = (
  amount: number,
  { fits, inWindow }: { fits: boolean; inWindow: boolean },
) => {
  if (!fits) return 'insufficient_credits';
  if (amount > 200) return 'window_limit_exceeded';
  return inWindow ? null : 'window_exhausted';
};

it('random moves match a model of a few lines', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 40 }), async (commands) => {
      const of = await ledgers.newHolder(0, 200);
      const { organizationId } = of;
      const names = Array.from({ length: 13 }, () => newId('job'));
      const model = {
        posted: 0,
        window: 0,
        jobs: new Map<number, { amount: number; open: boolean }>(),
      };
      const reserved = () =>
        [...model.jobs.values()].reduce((sum, entry) => sum + (entry.open ? entry.amount : 0), 0);
      for (const [index, step] of commands.entries()) {
        if (step.verb === 'grant') {
          model.posted += step.amount;
          const grant = { organizationId, id: `grant-${index}`, amountMicro: step.amount };
          await ledgers.ledger.grant({ ...grant, ...by });
          continue;
        }
        const known = model.jobs.get(step.job);
        const name = names[step.job] ?? '';
        if (step.verb === 'reserve') {
          if (known) continue;
          const verdict = await ledgers.reserve(of, step.amount, { id: name });
          const fits = model.posted - reserved() >= step.amount;
          const inWindow = model.window + step.amount <= 200;
          expect(verdict.verdict).toBe(
            findRejection(step.amount, { fits, inWindow }) ?? 'reserved',
          );
          if (!fits || !inWindow) continue;
          model.jobs.set(step.job, { amount: step.amount, open: true });
          model.window += step.amount;
          continue;
        }
        const charge =
          step.verb === 'charge' ? Math.floor(((known?.amount ?? 0) * step.share) / 100) : null;
        const verdict = await ledgers.settle(of, name, charge, { from: ledgers.other });
        expect(verdict.verdict).toBe(
          known ? (known.open ? 'settled' : 'already_settled') : 'not_reserved',
        );
        if (!known?.open) continue;
        known.open = false;
        model.posted -= charge ?? 0;
        model.window -= known.amount - (charge ?? 0);
      }
      expect(await ledgers.database.balance(organizationId)).toEqual({
        posted: model.posted,
        reserved: reserved(),
        available: model.posted - reserved(),
      });
      expect(await ledgers.readWindow(of)).toBe(model.window);
    }),
    // The seed is printed with a counterexample; SEED=… repeats it.
    { numRuns: 25, ...(process.env['SEED'] && { seed: Number(process.env['SEED']) }) },
  );
});
