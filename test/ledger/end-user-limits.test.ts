/**
 * Limits of end users: the reserved and charged credits of a period never exceed them, also under
 * parallel requests, beside the limits of the keys.
 */
import * as fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { createEndUserLimits } from '../../ledger/end-user-limits.ts';
import { scopes } from '../../identity/access.ts';
import { createBrowserToken, createBrowserTokens } from '../../identity/browser-tokens.ts';
import { untilHolds } from '../harness/until.ts';
import { pepper, useLedger, type Holder } from './use-ledger.ts';

const ledgers = useLedger();
let limits: ReturnType<typeof createEndUserLimits>;
beforeAll(() => {
  limits = createEndUserLimits(ledgers.pool);
});

type Change = Omit<Parameters<typeof limits.set>[0], 'organizationId' | 'endUser' | 'actingKeyId'>;

const set = ({ organizationId, keyId: actingKeyId }: Holder, endUser: string, change: Change) =>
  limits.set({ organizationId, actingKeyId, endUser, ...change });
const remove = ({ organizationId, keyId: actingKeyId }: Holder, endUser: string) =>
  limits.remove({ organizationId, endUser, actingKeyId });
const perDay = (micro: number) => ({ limit: { credits: micro / 1e6, per: 'day' } });
/** Makes an organization with credits whose end users may spend this number of micro-credits a day. */
async function limited(limitMicro: number): Promise<Holder> {
  const of = { ...(await ledgers.newHolder()), endUser: 'ann' };
  await set(of, '*', perDay(limitMicro));
  return of;
}
const reserve = (
  of: Holder,
  amountMicro: number,
  { id = newId('job'), from = ledgers.ledger } = {},
) => ledgers.reserve(of, amountMicro, { id, from, hasJob: true });
const settle = (of: Holder, id: string, amountMicro: number | null) =>
  ledgers.settle(of, id, amountMicro, { hasJob: true });
const used = async ({ organizationId, endUser = '' }: Holder) =>
  (await limits.read(organizationId, endUser)).budget?.used;
const exceeded = { verdict: 'end_user_limit_exceeded' };

describe('a limit of an end user', () => {
  it('is never exceeded by 64 parallel jobs and chats of two processes on a limit for 30', async () => {
    const of = await limited(30);
    const raced = await Promise.all(
      Array.from({ length: 64 }, (_, index) =>
        index % 3 === 0
          ? ledgers.reserveChat(of, 1)
          : reserve(of, 1, { from: index % 2 ? ledgers.ledger : ledgers.other }),
      ),
    );
    expect(raced.filter(({ verdict }) => verdict === 'reserved')).toHaveLength(30);
    const rejection = { ...exceeded, limit: 30, used: 30, required: 1, per: 'day' };
    for (const answer of raced.filter(({ verdict }) => verdict !== 'reserved'))
      expect(answer).toMatchObject(rejection);
    expect(await used(of)).toBe(30);
    expect(await reserve({ ...of, endUser: 'bob' }, 30)).toMatchObject({ verdict: 'reserved' });
    const { endUser: _, ...none } = of;
    expect(await reserve(none, 31)).toMatchObject({ verdict: 'reserved' });
  });

  it('regains released and uncharged credits, and counts what is charged', async () => {
    const of = await limited(10);
    const [one, two] = [newId('job'), newId('job')];
    await reserve(of, 6, { id: one });
    await reserve(of, 4, { id: two });
    expect(await reserve(of, 1)).toMatchObject(exceeded);
    expect(await reserve(of, 6, { id: one })).toMatchObject({
      verdict: 'reserved',
      repeated: true,
    });
    await settle(of, one, null);
    expect(await used(of)).toBe(4);
    await settle(of, two, 1);
    expect(await used(of)).toBe(1);
    expect(await ledgers.reserveChat(of, 2, 50)).toMatchObject({ amount: 9 });
    expect(await ledgers.reserveChat(of, 6)).toMatchObject({ ...exceeded, required: 6 });
  });

  it('is that of the end user itself if it has one, and none after that is removed', async () => {
    const of = await limited(10);
    await set(of, 'ann', perDay(12));
    await reserve(of, 12);
    expect(await reserve(of, 1)).toMatchObject({ ...exceeded, limit: 12 });
    await set(of, 'ann', { limit: null, rateLimit: 100 });
    expect(await reserve(of, 1)).toMatchObject({ verdict: 'reserved' });
    expect(await remove(of, 'ann')).toBe(true);
    expect(await reserve(of, 1)).toMatchObject({ ...exceeded, limit: 10, used: 13 });
    expect(await remove(of, '*')).toBe(true);
    expect(await remove(of, '*')).toBe(false);
    expect(await reserve(of, 100)).toMatchObject({ verdict: 'reserved' });
  });

  it('follows that of all others in each field that the end user has not set', async () => {
    const of = await limited(10);
    await set(of, '*', { rateLimit: 100, suspended: true });
    await set(of, 'ann', { suspended: false });
    const read = () => limits.read(of.organizationId, 'ann');
    expect(await read()).toMatchObject({
      suspended: false,
      limit: { credits: 10 / 1e6, per: 'day' },
      rateLimit: 100,
      inherited: ['limit', 'rateLimit'],
    });
    await reserve(of, 10);
    expect(await reserve(of, 1)).toMatchObject({ ...exceeded, limit: 10 });
    expect(await reserve({ ...of, endUser: 'bob' }, 1)).toMatchObject({
      verdict: 'end_user_suspended',
    });
    await set(of, '*', perDay(12));
    expect(await reserve(of, 3)).toMatchObject({ ...exceeded, limit: 12 });
    await set(of, 'ann', { limit: null });
    expect(await read()).toMatchObject({ limit: null, inherited: ['rateLimit'] });
    expect(await reserve(of, 100)).toMatchObject({ verdict: 'reserved' });
  });

  it('applies beside the limit of the key', async () => {
    const of = await limited(10);
    const { userId } = of;
    const made = await ledgers.keys.create({
      userId,
      actingKeyId: null,
      name: 'k',
      scopes,
      limit: { credits: 15 / 1e6, per: 'day' },
    });
    const byKey = { ...of, keyId: made.meta.keyId };
    await reserve(byKey, 8);
    expect(await reserve(byKey, 3)).toMatchObject({ ...exceeded, used: 8 });
    const bob = { ...byKey, endUser: 'bob' };
    expect(await ledgers.reserveChat(bob, 1, 50)).toMatchObject({ amount: 7 });
    expect(await reserve(bob, 1)).toMatchObject({ verdict: 'key_limit_exceeded', used: 15 });
    await expect(set(byKey, 'bob', perDay(1))).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(remove(byKey, '*')).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(await limits.read(of.organizationId, '*')).toMatchObject({ limit: { per: 'day' } });
  });

  it('of zero rejects every request, including free ones', async () => {
    const of = await limited(0);
    expect(await reserve(of, 0)).toMatchObject({ ...exceeded, limit: 0 });
    expect(await ledgers.reserveChat(of, 0, 5)).toMatchObject(exceeded);
  });
});

describe('an end user', () => {
  it('that is suspended reserves nothing, and what it has reserved is settled', async () => {
    const of = await limited(10);
    const id = newId('job');
    await reserve(of, 4, { id });
    await set(of, 'ann', { suspended: true });
    const suspended = { verdict: 'end_user_suspended' };
    expect(await reserve(of, 1)).toMatchObject(suspended);
    expect(await ledgers.reserveChat(of, 1)).toMatchObject(suspended);
    expect(await reserve(of, 4, { id })).toMatchObject({ verdict: 'reserved', repeated: true });
    expect(await settle(of, id, 3)).toMatchObject({ verdict: 'settled', charged: 3 });
    await set(of, 'ann', { suspended: false });
    expect(await reserve(of, 1)).toMatchObject({ verdict: 'reserved' });
  });

  it('makes at most its requests per minute; repeated ones are not counted', async () => {
    const of = await limited(1000);
    await set(of, 'ann', { rateLimit: 5 });
    const id = newId('job');
    await reserve(of, 1, { id });
    await Promise.all(Array.from({ length: 8 }, () => reserve(of, 1, { id })));
    const raced = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 ? ledgers.reserveChat(of, 1) : reserve(of, 1, { from: ledgers.other }),
      ),
    );
    const verdicts = raced.map(({ verdict }) => verdict);
    expect(verdicts.filter((verdict) => verdict === 'reserved')).toHaveLength(4);
    expect(verdicts.filter((verdict) => verdict === 'end_user_rate_limited')).toHaveLength(16);
    const minute = `UPDATE rate_window SET started_at = started_at - interval '1 minute'
      WHERE owner_id = $1`;
    await ledgers.query(minute, [`${of.organizationId}/ann`]);
    expect(await reserve(of, 1)).toMatchObject({ verdict: 'reserved' });
    expect(await reserve({ ...of, endUser: 'bob' }, 1)).toMatchObject({ verdict: 'reserved' });
  });

  it('is listed once it has limits or has spent, by id, in pages', async () => {
    const of = await limited(10);
    for (const endUser of ['b', 'ä', 'a/b', 'a']) await reserve({ ...of, endUser }, 1);
    await set(of, 'c', perDay(5));
    const page = async (after: string) =>
      (await limits.list(of.organizationId, after, 3)).map(({ endUser }) => endUser);
    expect([await page(''), await page('b'), await page('ä')]).toEqual([
      ['a', 'a/b', 'b'],
      ['c', 'ä'],
      [],
    ]);
    const other = await limited(10);
    expect(await limits.list(other.organizationId, '', 10)).toEqual([]);
    expect(await limits.read(of.organizationId, 'a')).toMatchObject({
      inherited: ['suspended', 'limit', 'rateLimit'],
      budget: { used: 1, limit: 10 },
    });
  });
});

const step = fc.record({
  verb: fc.constantFrom('reserve', 'charge', 'release', 'chat'),
  endUser: fc.constantFrom('ann', 'bob'),
  job: fc.nat(5),
  amount: fc.nat(12),
});

it('random moves of two end users match a model of a few lines', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const limit = 20;
      const of = await limited(limit);
      const jobs = new Map<
        number,
        { id: string; endUser: string; amount: number; open: boolean }
      >();
      const spent = { ann: 0, bob: 0 } as Record<string, number>;
      for (const { verb, job, amount, endUser } of steps) {
        const known = jobs.get(job);
        const holder = { ...of, endUser };
        const before = spent[endUser] ?? 0;
        if (verb === 'chat') {
          const { verdict } = await ledgers.reserveChat(holder, 1, amount + 1);
          const granted = Math.max(1, Math.min(amount + 1, limit - before));
          const fits = before + granted <= limit;
          expect(verdict).toBe(fits ? 'reserved' : exceeded.verdict);
          if (fits) spent[endUser] = before + granted;
        } else if (verb === 'reserve') {
          if (known) continue;
          const id = newId('job');
          const { verdict } = await reserve(holder, amount, { id });
          const fits = before + amount <= limit;
          expect(verdict).toBe(fits ? 'reserved' : exceeded.verdict);
          if (!fits) continue;
          spent[endUser] = before + amount;
          jobs.set(job, { id, endUser, amount, open: true });
        } else if (known?.open) {
          const charged = verb === 'charge' ? Math.floor(known.amount / 2) : 0;
          await settle(of, known.id, verb === 'charge' ? charged : null);
          known.open = false;
          spent[known.endUser] = (spent[known.endUser] ?? 0) - known.amount + charged;
        }
      }
      for (const [endUser, amount] of Object.entries(spent))
        expect(await used({ ...of, endUser })).toBe(amount);
    }),
    // The seed is printed with a counterexample; SEED=… repeats it.
    { numRuns: 8, ...(process.env['SEED'] && { seed: Number(process.env['SEED']) }) },
  );
});

describe('a limit of a browser token', () => {
  const tokenExceeded = { verdict: 'token_limit_exceeded', per: 'total', resetsAtMs: null };
  async function newToken(of: Holder, maxMicro: number): Promise<Holder> {
    const { organizationId, keyId } = of;
    const { tokenId } = await createBrowserToken(ledgers.pool, pepper, {
      maker: { organizationId, keyId, scopes: [...scopes], allowedModels: null },
      endUser: 'ann',
      expiresInSeconds: 60,
      maxCredits: maxMicro / 1e6,
    });
    return { ...of, endUser: 'ann', tokenId };
  }
  const spent = async ({ tokenId }: Holder) =>
    (
      await ledgers.query<{ spent: number }>(
        'SELECT spent_micro::int AS spent FROM browser_token WHERE id = $1',
        [tokenId],
      )
    )[0]?.spent;

  it('is never exceeded by 64 parallel jobs and chats of two processes on a maximum of 30', async () => {
    const of = await newToken(await ledgers.newHolder(), 30);
    const raced = await Promise.all(
      Array.from({ length: 64 }, (_, index) =>
        index % 3 === 0
          ? ledgers.reserveChat(of, 1)
          : reserve(of, 1, { from: index % 2 ? ledgers.ledger : ledgers.other }),
      ),
    );
    expect(raced.filter(({ verdict }) => verdict === 'reserved')).toHaveLength(30);
    for (const answer of raced.filter(({ verdict }) => verdict !== 'reserved'))
      expect(answer).toMatchObject({ ...tokenExceeded, limit: 30, used: 30, required: 1 });
    expect(await spent(of)).toBe(30);
    // Another token of the same end user has a maximum of its own.
    expect(await reserve(await newToken(of, 5), 5)).toMatchObject({ verdict: 'reserved' });
  });

  it('regains released and uncharged credits, and counts a repeated reservation once', async () => {
    const of = await newToken(await ledgers.newHolder(), 10);
    const [one, two] = [newId('job'), newId('job')];
    for (const _ of [1, 2]) await reserve(of, 6, { id: one });
    await reserve(of, 4, { id: two });
    expect(await spent(of)).toBe(10);
    await settle(of, one, null);
    await settle(of, two, 3);
    expect(await spent(of)).toBe(3);
    expect(await reserve(of, 8)).toMatchObject(tokenExceeded);
  });

  it('counts in the limits of its end user and of the key that made it too', async () => {
    const holder = await ledgers.newHolder();
    const key = await ledgers.keys.create({
      userId: holder.userId,
      name: 'limited',
      actingKeyId: null,
      scopes,
      limit: { credits: 5 / 1e6, per: 'total' },
    });
    const of = await newToken({ ...holder, keyId: key.meta.keyId }, 100);
    const other = await newToken({ ...holder, keyId: key.meta.keyId }, 100);
    expect(await reserve(of, 4)).toMatchObject({ verdict: 'reserved' });
    // Another token of the same key regains nothing.
    expect(await reserve(other, 2)).toMatchObject({ verdict: 'key_limit_exceeded', limit: 5 });
    await set(holder, 'ann', { limit: { credits: 5 / 1e6, per: 'day' } });
    expect(await reserve(await newToken(holder, 100), 2)).toMatchObject(exceeded);
  });

  it('is counted without a deadlock while all tokens are revoked', async () => {
    const of = await ledgers.newHolder();
    const [first, second] = [await newToken(of, 5), await newToken(of, 5)];
    const { organizationId } = of;
    const spend = (tokenId = '') =>
      ledgers.query('UPDATE browser_token SET spent_micro = 1 WHERE id = $1', [tokenId]);
    // As two reservations of a batch do, in the order that revocation does not have.
    await ledgers.query('BEGIN');
    await ledgers.query('SELECT FROM account WHERE organization_id = $1 FOR UPDATE', [
      organizationId,
    ]);
    await spend(second.tokenId);
    const revoked = createBrowserTokens(ledgers.pool).revokeAll({ organizationId, endUser: 'ann' });
    await untilHolds(async () => {
      await ledgers.query('SELECT pg_stat_clear_snapshot()');
      const waiting = await ledgers.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      expect(waiting).toHaveLength(1);
    });
    await spend(first.tokenId);
    await ledgers.query('COMMIT');
    expect(await revoked).toBe(2);
    expect([await spent(first), await spent(second)]).toEqual([1, 1]);
    await ledgers.query('UPDATE browser_token SET spent_micro = 0 WHERE organization_id = $1', [
      organizationId,
    ]);
  });

  it('is zero once the row of the token is deleted', async () => {
    const of = { ...(await ledgers.newHolder()), endUser: 'ann', tokenId: newId('browserToken') };
    expect(await reserve(of, 1)).toMatchObject({ ...tokenExceeded, limit: 0 });
  });
});
