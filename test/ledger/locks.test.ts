/**
 * Each move of money is decided under the lock of its account: another transaction holds the
 * account, spends its credits, and commits. A move that was sent meanwhile must wait, and must see
 * the new balance.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import type { ChatLedger } from '../../chat/chat-moves.ts';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let ledger: Ledger;
let chatLedger: ChatLedger;
let holder: Client;
let organizationId: string;
let keyId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = await openDatabase({
    url: database.url,
    poolMax: 8,
    logger: createLogger('test', 'silent'),
  });
  ledger = createLedger(pool);
  chatLedger = createChatLedger(pool);
  holder = new Client({ connectionString: database.url });
  await holder.connect();
});
beforeEach(async () => {
  const made = await createOrganization(pool, { name: 'locks', windowLimitMicro: 100 });
  ({ organizationId } = made);
  ({ keyId } = await createKey(pool, 'a pepper that is only used in this test', {
    ...made,
    name: 'test',
  }));
  const grant = { id: 'g', amountMicro: 100, actor: 'test', reason: 'test' };
  await ledger.grant({ organizationId, ...grant });
});
afterEach(async () => {
  expect(await database.audit()).toEqual([]);
});
afterAll(async () => {
  await holder.end();
  await pool.end();
  await database.drop();
});

type Move = Record<string, unknown>;

/** Runs moves of another transaction, which holds the account while `send` waits. */
async function meanwhile<Answer>(moves: Move[], send: () => Promise<Answer>): Promise<Answer> {
  await holder.query('BEGIN');
  const own = moves.map((move) => ({ organizationId, ...move }));
  await holder.query('SELECT ledger_apply($1)', [JSON.stringify(own)]);
  let answered = false;
  const moved = send().finally(() => {
    answered = true;
  });
  await sleep(300);
  expect(answered).toBe(false);
  await holder.query('COMMIT');
  return moved;
}

const spendAll: Move[] = [
  { verb: 'grant', id: 'taken', amount: -100, actor: 'test', reason: 'test' },
];
const reserve = (id = newId('job')) =>
  ledger.reserve({ organizationId, id, kind: 'studio', amountMicro: 60, ttlMs: 60_000 });
const chat = (id = newId('chat')) =>
  chatLedger.reserve({
    organizationId,
    id,
    amountMinMicro: 60,
    amountMaxMicro: 60,
    ttlMs: 60_000,
    chat: { keyId, model: 'm', provider: 'p', streamed: false, requestId: 'r' },
  });
/** Sets a chat as expired and found by an earlier sweep, so that the next sweep settles it. */
const expire = (id: string) =>
  database.query(
    `UPDATE reservation SET expires_at = now() - interval '1 s',
      owner_missing_at = now() - interval '1 s' WHERE id = $1`,
    [id],
  );
const verdictOf = async (answer: Promise<{ verdict: string }>) => (await answer).verdict;
const refused = 'insufficient_credits';
const releaseOf = (id: string): Move => ({
  verb: 'settle',
  id,
  to: 'released',
  amount: 0,
  reason: 'test',
});

describe('while another transaction holds and empties the account,', () => {
  it('a reservation waits, and is refused', async () => {
    expect(await meanwhile(spendAll, () => verdictOf(reserve()))).toBe(refused);
  });

  it('a batch of reservations waits, and is refused', async () => {
    const many = () => Promise.all(Array.from({ length: 5 }, () => verdictOf(reserve())));
    expect(await meanwhile(spendAll, many)).toEqual(Array.from({ length: 5 }, () => refused));
  });

  it('a chat waits, and is refused', async () => {
    expect(await meanwhile(spendAll, () => verdictOf(chat()))).toBe(refused);
  });

  it('a batch of chats waits, and is refused', async () => {
    const many = () => Promise.all(Array.from({ length: 5 }, () => verdictOf(chat())));
    expect(await meanwhile(spendAll, many)).toEqual(Array.from({ length: 5 }, () => refused));
  });

  it('credits are not withdrawn twice', async () => {
    const take = () =>
      ledger.grant({ organizationId, id: 'mine', amountMicro: -60, actor: 'a', reason: 'r' });
    const taken = await meanwhile(spendAll, take);
    expect(taken.verdict).not.toBe('granted');
  });

  it('a reservation with the same id is found, not created again', async () => {
    const id = newId('job');
    const same = { verb: 'reserve', id, kind: 'studio', amount: 60, ttlMs: 60_000 };
    expect(await meanwhile([same], () => reserve(id))).toMatchObject({
      verdict: 'reserved',
      repeated: true,
    });
    await ledger.settle({ organizationId, id, to: 'released', amountMicro: 0, reason: 'test' });
  });

  it('a charge of a released reservation has no effect', async () => {
    const id = newId('job');
    await reserve(id);
    const charge = () =>
      ledger.settle({ organizationId, id, to: 'charged', amountMicro: 60, reason: 'test' });
    expect(await meanwhile([releaseOf(id)], charge)).toMatchObject({ verdict: 'already_settled' });
    expect(await database.balance(organizationId)).toMatchObject({ posted: 100, reserved: 0 });
  });

  it('the sweeper does not settle a chat that was settled', async () => {
    const id = newId('chat');
    await chat(id);
    await expire(id);
    const sweep = () => chatLedger.sweep({ graceMs: 0, everyMs: 60_000 });
    expect(await meanwhile([releaseOf(id)], sweep)).toEqual([]);
  });

  it('the sweeper leaves alone a chat that recorded progress', async () => {
    const id = newId('chat');
    await chat(id);
    await expire(id);
    const servedBy = { model: 'm', provider: 'p', inputTokens: 1, outputTokens: 1 };
    const progress = [{ id, ...servedBy, amount: 10, ttlMs: 60_000 }];
    const sweep = async () => {
      // The progress is committed with the transaction that holds the account.
      await holder.query('SELECT chat_checkpoint($1)', [JSON.stringify(progress)]);
      return chatLedger.sweep({ graceMs: 0, everyMs: 60_000 });
    };
    const grant = { verb: 'grant', id: 'more', amount: 1, actor: 'test', reason: 'test' };
    expect(await meanwhile([grant], sweep)).toEqual([]);
    expect(await database.balance(organizationId)).toMatchObject({ posted: 101, reserved: 60 });
    await database.query('SELECT ledger_apply($1)', [
      JSON.stringify([{ organizationId, ...releaseOf(id) }]),
    ]);
  });

  it('the window is not used beyond its limit', async () => {
    await ledger.grant({ organizationId, id: 'more', amountMicro: 1000, actor: 'a', reason: 'r' });
    const id = newId('job');
    const other = { verb: 'reserve', id, kind: 'studio', amount: 60, ttlMs: 60_000 };
    expect(await meanwhile([other], () => verdictOf(reserve()))).toBe('window_exhausted');
    await ledger.settle({ organizationId, id, to: 'released', amountMicro: 0, reason: 'test' });
  });
});

describe('a locked account', () => {
  it('delays only the moves of its own organization', async () => {
    const others = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const other = await createOrganization(pool, {
          name: `other ${index}`,
          windowLimitMicro: 100,
        });
        const grant = { id: 'g', amountMicro: 100, actor: 'test', reason: 'test' };
        await ledger.grant({ organizationId: other.organizationId, ...grant });
        return other.organizationId;
      }),
    );
    const grantTo = (id: string, name: string) =>
      ledger.grant({ organizationId: id, id: name, amountMicro: 1, actor: 'test', reason: 'test' });
    await holder.query('BEGIN');
    await holder.query('SELECT FROM account WHERE organization_id = $1 FOR UPDATE', [
      organizationId,
    ]);
    const startedAt = performance.now();
    let isDone = false;
    const locked = grantTo(organizationId, 'locked').then((verdict) => {
      isDone = true;
      return verdict;
    });
    for (let round = 0; round < 5; round += 1) {
      // Each round shares its batch, or follows one, with another move of the locked account.
      const more = round < 2 ? grantTo(organizationId, `more ${round}`) : null;
      more?.catch(() => {});
      await Promise.all(others.map((id) => grantTo(id, `round ${round}`)));
    }
    // Moves that waited for the lock would wait for ten seconds.
    expect(performance.now() - startedAt).toBeLessThan(9000);
    expect(isDone).toBe(false);
    await holder.query('COMMIT');
    expect(await locked).toMatchObject({ verdict: 'granted', repeated: false });
    await expect
      .poll(async () =>
        database.query(
          `SELECT count(*) AS count FROM ledger_entry WHERE organization_id = $1 AND idempotency_key LIKE 'grant:more%'`,
          [organizationId],
        ),
      )
      .toEqual([{ count: expect.toSatisfy((count: unknown) => Number(count) === 2) as unknown }]);
  });
});
