/**
 * Each move of money is decided under the lock of its account: another transaction holds the
 * account, spends its credits, and commits. A move that was sent meanwhile must wait, and must see
 * the new balance.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { by, servedBy, useLedger, type Holder } from './use-ledger.ts';

const ledgers = useLedger();
let client: Client;
let of: Holder;

beforeAll(async () => {
  client = new Client({ connectionString: ledgers.database.url });
  await client.connect();
});
beforeEach(async () => {
  of = await ledgers.newHolder(100, 100);
});
afterAll(() => client.end());

type Move = Record<string, unknown>;

const apply = (query: (text: string, values: unknown[]) => Promise<unknown>, moves: Move[]) => {
  const own = moves.map((move) => ({ organizationId: of.organizationId, ...move }));
  return query('SELECT ledger_apply($1)', [JSON.stringify(own)]);
};

/** Runs moves of another transaction, which holds the account while `send` waits. */
async function meanwhile<Answer>(moves: Move[], send: () => Promise<Answer>): Promise<Answer> {
  await client.query('BEGIN');
  await apply((...statement) => client.query(...statement), moves);
  let answered = false;
  const moved = send().finally(() => {
    answered = true;
  });
  await sleep(300);
  expect(answered).toBe(false);
  await client.query('COMMIT');
  return moved;
}

const grant = (amount: number): Move => ({ verb: 'grant', id: 'theirs', amount, ...by });
const reserve = (id = newId('job')) => ledgers.reserve(of, 60, { id });
const reserveMove = (id: string): Move => {
  return { verb: 'reserve', id, kind: 'studio', amount: 60, ttlMs: 60_000 };
};
const release = (id: string): Move => {
  return { verb: 'settle', id, to: 'released', amount: 0, reason: 'test' };
};
const sweep = () => ledgers.chatLedger.sweep({ graceMs: 0, everyMs: 60_000 });
/** Creates a chat that has expired and that an earlier sweep found, so that the next settles it. */
async function newExpiredChat(): Promise<string> {
  const id = newId('chat');
  await ledgers.reserveChat(of, 60, 60, id);
  await ledgers.query(
    `UPDATE reservation SET expires_at = now() - interval '1 s',
      owner_missing_at = now() - interval '1 s' WHERE id = $1`,
    [id],
  );
  return id;
}

describe('while another transaction holds and empties the account,', () => {
  it.each<[string, number, () => Promise<{ verdict: string }>]>([
    ['a reservation waits, and is rejected', 1, () => reserve()],
    ['a batch of reservations waits, and is rejected', 5, () => reserve()],
    ['a batch of chats waits, and is rejected', 5, () => ledgers.reserveChat(of, 60)],
  ])('%s', async (_title, count, move) => {
    const verdicts = await meanwhile([grant(-100)], () =>
      Promise.all(Array.from({ length: count }, move)),
    );
    for (const { verdict } of verdicts) expect(verdict).toBe('insufficient_credits');
  });

  it('a reservation with the same id is found, not created again', async () => {
    const id = newId('job');
    const found = await meanwhile([reserveMove(id)], () => reserve(id));
    expect(found).toMatchObject({ verdict: 'reserved', repeated: true });
    await ledgers.settle(of, id, null);
  });

  it('a charge of a released reservation has no effect', async () => {
    const id = newId('job');
    await reserve(id);
    const charged = await meanwhile([release(id)], () => ledgers.settle(of, id, 60));
    expect(charged).toMatchObject({ verdict: 'already_settled' });
    const balance = await ledgers.database.balance(of.organizationId);
    expect(balance).toMatchObject({ posted: 100, reserved: 0 });
  });

  it('the sweeper does not settle a chat that was settled, and leaves jobs alone', async () => {
    const id = await newExpiredChat();
    const jobId = newId('job');
    await ledgers.reserve(of, 30, { id: jobId });
    const job = await ledgers.query(
      `UPDATE reservation SET expires_at = now() WHERE id = $1 RETURNING *`,
      [jobId],
    );
    expect(await meanwhile([release(id)], sweep)).toEqual([]);
    expect(await ledgers.query('SELECT * FROM reservation WHERE id = $1', [jobId])).toEqual(job);
    await ledgers.settle(of, jobId, null);
  });

  it('the sweeper leaves alone a chat that recorded progress', async () => {
    const id = await newExpiredChat();
    const tokens = { inputTokens: 1, outputTokens: 1, amount: 10, ttlMs: 60_000 };
    const swept = await meanwhile([grant(1)], async () => {
      // The progress is committed with the transaction that holds the account.
      const progress = JSON.stringify([{ id, ...servedBy, ...tokens }]);
      await client.query('SELECT chat_checkpoint($1)', [progress]);
      return sweep();
    });
    expect(swept).toEqual([]);
    const balance = await ledgers.database.balance(of.organizationId);
    expect(balance).toMatchObject({ posted: 101, reserved: 60 });
    await apply(ledgers.query, [release(id)]);
  });
});

it('a locked account delays only the moves of its own organization', async () => {
  const others = await Promise.all(Array.from({ length: 5 }, () => ledgers.newHolder(100, 100)));
  const grantTo = ({ organizationId }: Holder, id: string) =>
    ledgers.ledger.grant({ organizationId, id, amountMicro: 1, ...by });
  await client.query('BEGIN');
  const { organizationId } = of;
  const lock = 'SELECT FROM account WHERE organization_id = $1 FOR UPDATE';
  await client.query(lock, [organizationId]);
  const startedAt = performance.now();
  let isDone = false;
  const locked = grantTo(of, 'locked').finally(() => {
    isDone = true;
  });
  for (let round = 0; round < 5; round += 1) {
    // Each round shares its batch, or follows one, with another move of the locked account.
    const more = round < 2 ? grantTo(of, `more ${round}`) : null;
    more?.catch(() => {});
    await Promise.all(others.map((other) => grantTo(other, `round ${round}`)));
  }
  // Moves that waited for the lock would wait for ten seconds.
  expect(performance.now() - startedAt).toBeLessThan(9000);
  expect(isDone).toBe(false);
  await client.query('COMMIT');
  expect(await locked).toMatchObject({ verdict: 'granted', repeated: false });
  const more = `SELECT FROM ledger_entry
      WHERE organization_id = $1 AND idempotency_key LIKE 'grant:more%'`;
  await expect.poll(() => ledgers.query(more, [organizationId])).toHaveLength(2);
});
