/**
 * Postgres is unreachable for longer than a chat’s time limit without it. When Postgres is back,
 * the sweeper can come before the process of the chats, and must not settle chats of a running
 * process.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import type { ChatLedger } from '../../chat/chat-ledger-types.ts';
import { RunningChats } from '../../chat/running-chats.ts';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

const logger = createLogger('test', 'silent');
const ttlMs = 60_000;
const terms = { graceMs: 90_000, everyMs: 20_000 };
const priceMicro = 100;
const servedBy = { model: 'm', provider: 'p' };
let database: TestDatabase;
let pool: DatabasePool;
let ledger: Ledger;
let chatLedger: ChatLedger;
/** Ledger of a process that loses its connection to Postgres while `away` is true. */
let reached: ChatLedger;
let away: boolean;
let organizationId: string;
let keyId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  ledger = createLedger(pool);
  chatLedger = createChatLedger(pool);
  const through =
    <Args extends unknown[], Answer>(move: (...args: Args) => Promise<Answer>) =>
    (...args: Args): Promise<Answer> =>
      away ? Promise.reject(new Error('Postgres is away')) : move(...args);
  reached = {
    reserve: through(chatLedger.reserve),
    price: through(chatLedger.price),
    settle: through(chatLedger.settle),
    checkpoint: through(chatLedger.checkpoint),
    sweep: through(chatLedger.sweep),
  };
});
beforeEach(async () => {
  away = false;
  const made = await createOrganization(pool, { name: 'chat', windowLimitMicro: null });
  ({ organizationId } = made);
  ({ keyId } = await createKey(pool, 'a pepper that is only used in this test', {
    ...made,
    name: 'test',
  }));
  const grant = { id: 'g', amountMicro: 10_000_000, actor: 'test', reason: 'test' };
  await ledger.grant({ organizationId, ...grant });
});
afterEach(async () => {
  vi.useRealTimers();
  expect(await database.audit()).toEqual([]);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const sweep = () => chatLedger.sweep(terms);
const posted = async () => (await database.balance(organizationId))?.posted ?? 0;
const openChats = () =>
  database.query<{ id: string }>(
    `SELECT id FROM reservation WHERE organization_id = $1 AND state = 'reserved'`,
    [organizationId],
  );
/** Lets time pass in the database, by moving the times of the chats into the past. */
const pass = (ms: number) =>
  database.query(
    `UPDATE reservation SET expires_at = expires_at - $1 * interval '1 millisecond',
       owner_missing_at = owner_missing_at - $1 * interval '1 millisecond'
     WHERE state = 'reserved'`,
    [ms],
  );

/** Starts a chat in a process of its own. */
async function startChat({ checkpointMs }: { checkpointMs: number }) {
  const running = new RunningChats({
    ledger: reached,
    logger,
    checkpointMs,
    reservationTtlMs: ttlMs,
  });
  const id = newId('chat');
  await reached.reserve({
    organizationId,
    id,
    amountMinMicro: priceMicro,
    amountMaxMicro: priceMicro,
    ttlMs,
    chat: { keyId, ...servedBy, streamed: false, requestId: 'r' },
  });
  const tokens = { inputTokens: 1, outputTokens: 1 };
  const chat = { id, progress: () => ({ id, servedBy, ...tokens, amountMicro: 1 }) };
  running.add(chat);
  const end = { organizationId, id, servedBy, ...tokens, amountMicro: priceMicro } as const;
  return {
    end: () =>
      void running.settle(chat, { ...end, to: 'charged', reason: 'done', countedBy: 'provider' }),
    waitUntilIdle: () => running.waitUntilIdle(),
    /** Waits until the progress was recorded after now. */
    recorded: async () => {
      await database.query('UPDATE reservation SET checkpoint_micro = 0 WHERE id = $1', [id]);
      const progress = 'SELECT FROM reservation WHERE id = $1 AND checkpoint_micro > 0';
      await expect.poll(() => database.query(progress, [id])).toHaveLength(1);
    },
  };
}

describe('a chat', () => {
  it('of a running process survives an outage longer than its time limit, whichever process reconnects first', async () => {
    const { end, waitUntilIdle, recorded } = await startChat({ checkpointMs: 100 });
    await recorded();
    away = true;
    await pass(ttlMs + 500);
    // The sweeper reconnects first, and begins a grace period.
    expect(await sweep()).toEqual([]);
    away = false;
    await recorded();
    await pass(ttlMs - 5000);
    expect(await sweep()).toEqual([]);
    end();
    await waitUntilIdle();
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('survives an outage that lasts beyond the grace period', async () => {
    const { end, waitUntilIdle, recorded } = await startChat({ checkpointMs: 100 });
    await recorded();
    away = true;
    await pass(ttlMs + 300);
    expect(await sweep()).toEqual([]);
    // The sweeper cannot reach Postgres either, until long after the grace period.
    await pass(terms.graceMs + terms.everyMs * 3 + 300);
    expect(await sweep()).toEqual([]);
    away = false;
    end();
    await waitUntilIdle();
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('of a process that is gone is settled from its last checkpoint after the grace period', async () => {
    const { recorded } = await startChat({ checkpointMs: 100 });
    await recorded();
    away = true;
    await pass(ttlMs + 300);
    expect(await sweep()).toEqual([]);
    await pass(terms.graceMs - 10_000);
    expect(await sweep()).toEqual([]);
    await pass(10_000);
    expect(await sweep()).toHaveLength(1);
    expect(await openChats()).toEqual([]);
    expect(await posted()).toBe(10_000_000 - 1);
  });

  it('that ended during an outage is charged in full when Postgres is back, a minute later', async () => {
    const { end } = await startChat({ checkpointMs: ttlMs });
    away = true;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await openChats()).toHaveLength(1);
    away = false;
    await vi.advanceTimersByTimeAsync(5000);
    vi.useRealTimers();
    await expect.poll(openChats).toEqual([]);
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('that cannot be settled does not keep its process from ending', async () => {
    const { end, waitUntilIdle } = await startChat({ checkpointMs: ttlMs });
    away = true;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    end();
    const ending = waitUntilIdle();
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    await ending;
    await pass(ttlMs + 300);
    expect(await chatLedger.sweep({ ...terms, graceMs: 0 })).toHaveLength(1);
  });
});
