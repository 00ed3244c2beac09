/**
 * The ledger under random moves, parallel moves and repetition: never overspent, never settled
 * twice.
 */
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pools: DatabasePool[];
let ledger: Ledger;
/** A second process's ledger: batches of its own, racing with the first one's. */
let other: Ledger;

beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  const open = () => openDatabase({ url: database.url, poolMax: 4, logger });
  pools = [await open(), await open()];
  [ledger, other] = pools.map((pool) => createLedger(pool)) as [Ledger, Ledger];
});
afterEach(async () => expect(await database.audit()).toEqual([]));
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await database.drop();
});

async function organization(amountMicro: number, windowLimitMicro: number | null = null) {
  const [pool] = pools;
  const { organizationId } = await createOrganization(pool as DatabasePool, {
    name: 'ledger',
    windowLimitMicro,
  });
  if (amountMicro > 0) {
    await ledger.grant({ organizationId, id: 'g', amountMicro, actor: 'test', reason: 'test' });
  }
  return organizationId;
}

const reserve = (from: Ledger, organizationId: string, id: string, amountMicro: number) =>
  from.reserve({ organizationId, id, kind: 'studio', amountMicro, ttlMs: 60_000 });
const settle = (from: Ledger, organizationId: string, id: string, amountMicro: number | null) =>
  from.settle({
    organizationId,
    id,
    to: amountMicro === null ? 'released' : 'charged',
    amountMicro: amountMicro ?? 0,
    reason: 'test',
  });

describe('a grant', () => {
  const grant = (organizationId: string, amountMicro: number, from = ledger) =>
    from.grant({ organizationId, id: 'g', amountMicro, actor: 'test', reason: 'test' });

  it('adds credits once when the same id arrives several times, in sequence or in parallel', async () => {
    const organizationId = await organization(0);
    const verdicts = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        grant(organizationId, 10, index % 2 ? ledger : other),
      ),
    );
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(Array(20).fill('granted'));
    expect(await database.balance(organizationId)).toMatchObject({ posted: 10 });
    expect(await grant(organizationId, 11)).toMatchObject({ verdict: 'mismatch' });
  });
});

describe('1,000 parallel reservations', () => {
  it('from two processes on a balance for 10 succeed exactly 10 times', async () => {
    const organizationId = await organization(10);
    const verdicts = await Promise.all(
      Array.from({ length: 1000 }, (_, index) =>
        reserve(index % 2 ? ledger : other, organizationId, newId('job'), 1),
      ),
    );
    const granted = verdicts.filter(({ verdict }) => verdict === 'reserved');
    expect(granted).toHaveLength(10);
    expect(await database.balance(organizationId)).toEqual({
      posted: 10,
      reserved: 10,
      available: 0,
    });
  });

  it('with the same id create one reservation', async () => {
    const organizationId = await organization(100);
    const id = newId('job');
    const verdicts = await Promise.all(
      Array.from({ length: 1000 }, (_, index) =>
        reserve(index % 2 ? ledger : other, organizationId, id, 7),
      ),
    );
    const first = verdicts.filter((verdict) => verdict.verdict === 'reserved' && !verdict.repeated);
    expect(first).toHaveLength(1);
    expect(await database.balance(organizationId)).toMatchObject({ reserved: 7 });
  });
});

describe('1,000 parallel settlements of one reservation', () => {
  it('have exactly one effect', async () => {
    const organizationId = await organization(100);
    const id = newId('job');
    await reserve(ledger, organizationId, id, 60);
    const verdicts = await Promise.all(
      Array.from({ length: 1000 }, (_, index) =>
        settle(index % 2 ? ledger : other, organizationId, id, index % 3 ? 25 : null),
      ),
    );
    expect(verdicts.filter(({ verdict }) => verdict === 'settled')).toHaveLength(1);
    const balance = await database.balance(organizationId);
    expect([75, 100]).toContain(balance?.posted);
    expect(balance?.reserved).toBe(0);
  });
});

describe('an invalid move', () => {
  it('is refused and changes nothing', async () => {
    const organizationId = await organization(100);
    const id = newId('job');
    await reserve(ledger, organizationId, id, 10);
    await expect(settle(ledger, organizationId, id, 11)).rejects.toThrow('above_reservation');
    await expect(reserve(ledger, organizationId, id, 11)).rejects.toThrow('mismatch');
    await expect(reserve(ledger, newId('organization'), newId('job'), 1)).rejects.toThrow(
      'no_account',
    );
    expect(await settle(ledger, organizationId, newId('job'), 1)).toMatchObject({
      verdict: 'not_reserved',
    });
    await expect(reserve(ledger, organizationId, newId('job'), -1)).rejects.toThrow(
      'non-negative integer',
    );
    await expect(reserve(ledger, organizationId, newId('job'), 0.5)).rejects.toThrow(
      'non-negative integer',
    );
    await settle(ledger, organizationId, id, null);
  });

  it('fails alone: the other moves of its batch are applied', async () => {
    const organizationId = await organization(100);
    const ids = Array.from({ length: 20 }, () => newId('job'));
    const ended = await Promise.allSettled(
      ids.map((id, index) =>
        index === 7
          ? // Too long for the checks of JSON → SQL: this one raises inside Postgres.
            ledger.reserve({
              organizationId,
              id,
              kind: 'studio',
              amountMicro: 1,
              ttlMs: Number.NaN,
            })
          : reserve(ledger, organizationId, id, 1),
      ),
    );
    expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(await database.balance(organizationId)).toMatchObject({ reserved: 19 });
  });

  it('cannot be written around the ledger functions', async () => {
    const organizationId = await organization(100);
    await expect(
      database.query('UPDATE ledger_entry SET posted_change = 1 WHERE organization_id = $1', [
        organizationId,
      ]),
    ).rejects.toThrow('append-only');
    await expect(
      database.query('DELETE FROM ledger_entry WHERE organization_id = $1', [organizationId]),
    ).rejects.toThrow('append-only');
    await expect(
      database.query('UPDATE account SET reserved = posted + 1 WHERE organization_id = $1', [
        organizationId,
      ]),
    ).rejects.toThrow('check');
  });
});

describe('the audit', () => {
  it('finds a balance that was changed by hand', async () => {
    const organizationId = await organization(100);
    const change = (by: number) =>
      database.query('UPDATE account SET posted = posted + $2 WHERE organization_id = $1', [
        organizationId,
        by,
      ]);
    await change(1);
    expect(await database.audit()).toEqual([
      { finding: 'account differs from the sum of its entries', subject: organizationId },
    ]);
    await change(-1);
  });
});

describe('random moves', () => {
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

  const refusalOf = (amount: number, { fits, inWindow }: { fits: boolean; inWindow: boolean }) => {
    if (!fits) return 'insufficient_credits';
    if (amount > 200) return 'window_limit_exceeded';
    return inWindow ? null : 'window_exhausted';
  };

  it('match a model of a few lines', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 40 }), async (commands) => {
        const organizationId = await organization(0, 200);
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
            await ledger.grant({
              organizationId,
              id: `grant-${index}`,
              amountMicro: step.amount,
              actor: 'test',
              reason: 'test',
            });
            continue;
          }
          const known = model.jobs.get(step.job);
          const name = names[step.job] ?? '';
          if (step.verb === 'reserve') {
            if (known) continue;
            const verdict = await reserve(ledger, organizationId, name, step.amount);
            const fits = model.posted - reserved() >= step.amount;
            const inWindow = model.window + step.amount <= 200;
            expect(verdict.verdict).toBe(refusalOf(step.amount, { fits, inWindow }) ?? 'reserved');
            if (!fits || !inWindow) continue;
            model.jobs.set(step.job, { amount: step.amount, open: true });
            model.window += step.amount;
            continue;
          }
          const charge =
            step.verb === 'charge' ? Math.floor(((known?.amount ?? 0) * step.share) / 100) : null;
          const verdict = await settle(other, organizationId, name, charge);
          expect(verdict.verdict).toBe(
            known ? (known.open ? 'settled' : 'already_settled') : 'not_reserved',
          );
          if (!known?.open) continue;
          known.open = false;
          model.posted -= charge ?? 0;
          model.window -= known.amount - (charge ?? 0);
        }
        expect(await database.balance(organizationId)).toEqual({
          posted: model.posted,
          reserved: reserved(),
          available: model.posted - reserved(),
        });
        const [account] = await database.query<{ window_used: string }>(
          'SELECT window_used FROM account WHERE organization_id = $1',
          [organizationId],
        );
        expect(Number(account?.window_used)).toBe(model.window);
      }),
      // The seed is printed with a counterexample; SEED=… repeats it.
      { numRuns: 25, ...(process.env['SEED'] && { seed: Number(process.env['SEED']) }) },
    );
    expect(await database.audit()).toEqual([]);
  });
});
