/**
 * Budgets of keys: the reserved and charged credits of a period never exceed its limit, also under
 * parallel requests.
 */
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import type { ChatLedger } from '../../chat/chat-moves.ts';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createMember, createOrganization } from '../../api/identity/organizations.ts';
import { scopes } from '../../api/identity/access.ts';
import { createKeys } from '../../api/identity/keys.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pools: DatabasePool[];
let ledgers: Ledger[];
let chatLedger: ChatLedger;
let keys: ReturnType<typeof createKeys>;

beforeAll(async () => {
  database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  const open = () => openDatabase({ url: database.url, poolMax: 4, logger });
  pools = [await open(), await open()];
  ledgers = pools.map((pool) => createLedger(pool));
  const [pool] = pools as [DatabasePool];
  chatLedger = createChatLedger(pool);
  keys = createKeys(pool, 'a pepper of these tests');
});
afterEach(async () => expect(await database.audit()).toEqual([]));
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await database.drop();
});

type Per = 'day' | 'week' | 'month' | 'total';
interface Holder {
  organizationId: string;
  memberId: string;
  keyId: string;
}

/** Makes an organization with enough credits, and a key with this limit in micro-credits. */
async function holder(limitMicro: number | null, per: Per = 'day'): Promise<Holder> {
  const [pool] = pools as [DatabasePool];
  const made = await createOrganization(pool, { name: 'budgets', windowLimitMicro: null });
  const { organizationId, memberId } = made;
  const grant = { organizationId, id: 'g', amountMicro: 1_000_000, actor: 'a', reason: 'r' };
  await ledgers[0]?.grant(grant);
  const limit = limitMicro === null ? null : { credits: limitMicro / 1e6, per };
  const key = await keys.create({ memberId, actingKeyId: null, name: 'k', scopes, limit });
  return { organizationId, memberId, keyId: key.meta.keyId };
}

const ledger = (index = 0): Ledger => ledgers[index % 2] as Ledger;

const reserve = (of: Holder, amountMicro: number, { id = newId('job'), from = 0 } = {}) =>
  ledger(from).reserve({
    organizationId: of.organizationId,
    id,
    kind: 'studio',
    amountMicro,
    ttlMs: 60_000,
    job: {
      keyId: of.keyId,
      type: 'imageGenerate',
      model: null,
      provider: 'fal',
      requestId: 'req_1',
      deadlineAt: new Date().toISOString(),
      request: {},
    },
  });

const settle = ({ organizationId }: Holder, id: string, amountMicro: number | null) =>
  ledger().settle({
    organizationId,
    id,
    to: amountMicro === null ? 'released' : 'charged',
    amountMicro: amountMicro ?? 0,
    reason: 'test',
    job:
      amountMicro === null
        ? {
            status: 'failed',
            outputs: null,
            error: { code: 'CANCELED', message: 'x' },
            artifacts: [],
          }
        : { status: 'completed', outputs: [], error: null, artifacts: [] },
  });

const chat = (of: Holder, amountMinMicro: number, amountMaxMicro: number, id = newId('chat')) =>
  chatLedger.reserve({
    organizationId: of.organizationId,
    id,
    amountMinMicro,
    amountMaxMicro,
    ttlMs: 60_000,
    chat: { keyId: of.keyId, model: 'm', provider: 'p', streamed: false, requestId: 'req_1' },
  });

const settleChat = ({ organizationId }: Holder, id: string, amountMicro: number) =>
  chatLedger.settle({
    organizationId,
    id,
    to: 'charged',
    amountMicro,
    reason: 'test',
    inputTokens: 1,
    outputTokens: 1,
    countedBy: 'provider',
    servedBy: { model: 'm', provider: 'p' },
  });

async function used({ keyId }: Holder): Promise<number> {
  const [row] = await database.query<{ budget: { used: number } | null }>(
    'SELECT key_budget($1) AS budget',
    [keyId],
  );
  return row?.budget?.used ?? NaN;
}

describe('a budget of a key', () => {
  it('is never exceeded by 50 parallel jobs and chats of two processes on a budget for 10', async () => {
    const of = await holder(10);
    const raced = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        index % 3 === 0 ? chat(of, 1, 1) : reserve(of, 1, { from: index }),
      ),
    );
    expect(raced.filter(({ verdict }) => verdict === 'reserved')).toHaveLength(10);
    const refused = raced.filter(({ verdict }) => verdict !== 'reserved');
    for (const verdict of refused) {
      expect(verdict).toMatchObject({
        verdict: 'key_limit_exceeded',
        limit: 10,
        used: 10,
        required: 1,
        per: 'day',
      });
    }
    expect(await used(of)).toBe(10);
  });

  it('regains released and uncharged credits', async () => {
    const of = await holder(10);
    const [one, two] = [newId('job'), newId('job')];
    await reserve(of, 6, { id: one });
    await reserve(of, 4, { id: two });
    expect(await reserve(of, 1)).toMatchObject({ verdict: 'key_limit_exceeded' });
    await settle(of, one, null);
    expect(await used(of)).toBe(4);
    await settle(of, two, 1);
    expect(await used(of)).toBe(1);
    // The job ends in the statement that settles it.
    const jobs = await database.query('SELECT status FROM job WHERE id = ANY($1) ORDER BY status', [
      [one, two],
    ]);
    expect(jobs).toEqual([{ status: 'completed' }, { status: 'failed' }]);
    expect(await reserve(of, 9)).toMatchObject({ verdict: 'reserved' });
  });

  it('with a limit of zero rejects every request, including free ones', async () => {
    const of = await holder(0, 'total');
    for (const amount of [0, 1]) {
      expect(await reserve(of, amount)).toMatchObject({
        verdict: 'key_limit_exceeded',
        limit: 0,
        resetsAtMs: null,
      });
    }
    expect(await chat(of, 0, 5)).toMatchObject({ verdict: 'key_limit_exceeded' });
  });

  it('limits the reservation and the charge of a chat', async () => {
    const of = await holder(10);
    const id = newId('chat');
    expect(await chat(of, 2, 4, id)).toMatchObject({ verdict: 'reserved', amount: 4, payable: 10 });
    await settleChat(of, id, 7);
    expect(await used(of)).toBe(7);
    expect(await chat(of, 4, 50)).toMatchObject({ verdict: 'key_limit_exceeded', required: 4 });
    const last = newId('chat');
    expect(await chat(of, 2, 50, last)).toMatchObject({ verdict: 'reserved', amount: 3 });
    // More than the budget: the rest is the loss of the operator.
    expect(await settleChat(of, last, 40)).toMatchObject({ verdict: 'settled', charged: 3 });
    expect(await used(of)).toBe(10);
    expect(
      await database.query('SELECT loss_micro::integer AS loss FROM reservation WHERE id = $1', [
        last,
      ]),
    ).toEqual([{ loss: 37 }]);
  });

  it('counts a chat that a crash left open when it is settled', async () => {
    const of = await holder(10);
    const servedBy = { model: 'm', provider: 'p' };
    const [running, silent] = [newId('chat'), newId('chat')];
    await chat(of, 5, 5, running);
    await chat(of, 5, 5, silent);
    const tokens = { inputTokens: 1, outputTokens: 1 };
    await chatLedger.checkpoint({ id: running, servedBy, ...tokens, amountMicro: 3, ttlMs: 0 });
    await database.query('UPDATE reservation SET expires_at = now() WHERE id = $1', [silent]);
    expect(await used(of)).toBe(10);
    await chatLedger.sweep({ graceMs: 0, everyMs: 1000 });
    await chatLedger.sweep({ graceMs: 0, everyMs: 1000 });
    expect(await used(of)).toBe(3);
  });

  it('that is set later counts the charges of its current period', async () => {
    const of = await holder(null);
    await reserve(of, 7);
    const { keyId, memberId } = of;
    const limit = { credits: 10 / 1e6, per: 'month' } as const;
    await keys.setLimit({ keyId, memberId, actingKeyId: null, limit });
    expect(await reserve(of, 4)).toMatchObject({ verdict: 'key_limit_exceeded', used: 7 });
    await keys.setLimit({ keyId, memberId, actingKeyId: null, limit: null });
    expect(await reserve(of, 4)).toMatchObject({ verdict: 'reserved' });
  });
});

describe('a budget period', () => {
  it.each([
    ['day', '1 day', 0],
    ['week', '6 days 23 hours', null],
    ['week', '7 days', 0],
    ['month', '31 days', 0],
    ['total', '1000 days', 10],
  ] as const)('%s: a charge that began %s ago counts as expected', async (per, ago, expected) => {
    const of = await holder(10, per);
    await reserve(of, 10);
    const [{ counts } = { counts: null }] = await database.query<{ counts: boolean }>(
      `SELECT (now() - $1::interval) AT TIME ZONE 'UTC' >= date_trunc('week', now() AT TIME ZONE 'UTC')
        AS counts`,
      [ago],
    );
    await database.query(
      `UPDATE reservation SET created_at = created_at - $2::interval WHERE organization_id = $1`,
      [of.organizationId, ago],
    );
    await database.query(
      `UPDATE budget_spend SET day = ((now() - $2::interval) AT TIME ZONE 'UTC')::date
       WHERE budget_id = $1`,
      [of.keyId, ago],
    );
    expect(await used(of)).toBe(expected ?? (counts ? 10 : 0));
  });

  it('regains released credits on the day of the reservation, not on the day of the release', async () => {
    const of = await holder(10);
    const id = newId('job');
    await reserve(of, 7, { id });
    await database.query(
      `UPDATE reservation SET created_at = created_at - interval '1 day' WHERE id = $1`,
      [id],
    );
    await database.query('UPDATE budget_spend SET day = day - 1 WHERE budget_id = $1', [of.keyId]);
    await reserve(of, 3);
    await settle(of, id, null);
    expect(
      await database.query(
        'SELECT spent::int FROM budget_spend WHERE budget_id = $1 ORDER BY day',
        [of.keyId],
      ),
    ).toEqual([{ spent: 0 }, { spent: 3 }]);
  });

  it.each([
    ['day', '2026-03-31T23:59:59Z', '2026-03-31', '2026-04-01'],
    ['week', '2026-11-22T12:00:00Z', '2026-11-16', '2026-11-23'],
    ['month', '2026-12-31T23:30:00-01:00', '2027-01-01', '2027-02-01'],
    ['total', '2026-11-22T12:00:00Z', '-infinity', null],
  ])('%s that contains %s begins and ends by the UTC calendar', async (per, at, starts, ends) => {
    const [row] = await database.query(
      'SELECT starts::text, ends::text FROM budget_period($1, $2)',
      [per, at],
    );
    expect(row).toEqual({ starts, ends });
  });
});

describe('a shared budget', () => {
  it('covers a key and its rotated successor', async () => {
    const of = await holder(10);
    const { memberId, keyId } = of;
    const next = await keys.rotate({ memberId, actingKeyId: keyId, keyId, overlapMs: 60_000 });
    expect(next.meta.limit).toEqual({ credits: 10 / 1e6, per: 'day' });
    await reserve(of, 6);
    const heir = { ...of, keyId: next.meta.keyId };
    expect(await reserve(heir, 5)).toMatchObject({ verdict: 'key_limit_exceeded', used: 6 });
    expect(await used(heir)).toBe(6);
  });

  it('covers a limited key and the keys that it creates', async () => {
    const of = await holder(10);
    const { memberId, keyId: actingKeyId } = of;
    const made = await keys.create({ memberId, actingKeyId, name: 'child' });
    await reserve({ ...of, keyId: made.meta.keyId }, 8);
    expect(await reserve(of, 3)).toMatchObject({ verdict: 'key_limit_exceeded', used: 8 });
    const limit = { credits: 1, per: 'day' } as const;
    await expect(keys.create({ memberId, actingKeyId, name: 'own', limit })).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
  });

  it('is not avoided by a limited key that changes a limit or rotates an unlimited key', async () => {
    const of = await holder(10);
    const { memberId, keyId: actingKeyId } = of;
    const free = await keys.create({ memberId, actingKeyId: null, name: 'free', scopes });
    for (const keyId of [actingKeyId, free.meta.keyId]) {
      await expect(
        keys.setLimit({ keyId, memberId, actingKeyId, limit: null }),
      ).rejects.toMatchObject({ code: 'FORBIDDEN' });
    }
    await expect(
      keys.rotate({ memberId, actingKeyId, keyId: free.meta.keyId, overlapMs: 0 }),
    ).rejects.toMatchObject({ code: 'FORBIDDEN' });
    const [pool] = pools as [DatabasePool];
    const { organizationId } = of;
    const stranger = await createMember(pool, { organizationId, name: 's', role: 'member' });
    await expect(
      keys.setLimit({ keyId: actingKeyId, memberId: stranger, actingKeyId: null, limit: null }),
    ).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('random moves', () => {
  const step = fc.record({
    verb: fc.constantFrom('reserve', 'charge', 'release', 'chat'),
    job: fc.nat(5),
    amount: fc.nat(12),
  });

  it('match a model of a few lines', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const limit = 20;
        const of = await holder(limit);
        const jobs = new Map<number, { id: string; amount: number; open: boolean }>();
        let spent = 0;
        for (const { verb, job, amount } of steps) {
          const known = jobs.get(job);
          if (verb === 'chat') {
            const verdict = await chat(of, 1, amount + 1);
            const granted = Math.max(1, Math.min(amount + 1, limit - spent));
            const fits = spent + granted <= limit;
            expect(verdict.verdict).toBe(fits ? 'reserved' : 'key_limit_exceeded');
            if (fits) spent += granted;
          } else if (verb === 'reserve') {
            if (known) continue;
            const id = newId('job');
            const verdict = await reserve(of, amount, { id });
            const fits = spent + amount <= limit;
            expect(verdict.verdict).toBe(fits ? 'reserved' : 'key_limit_exceeded');
            if (!fits) continue;
            spent += amount;
            jobs.set(job, { id, amount, open: true });
          } else if (known?.open) {
            const charged = verb === 'charge' ? Math.floor(known.amount / 2) : 0;
            await settle(of, known.id, verb === 'charge' ? charged : null);
            known.open = false;
            spent -= known.amount - charged;
          }
        }
        expect(await used(of)).toBe(spent);
      }),
      // The seed is printed with a counterexample; SEED=… repeats it.
      { numRuns: 12, ...(process.env['SEED'] && { seed: Number(process.env['SEED']) }) },
    );
  });
});
