/**
 * Postgres is unreachable for longer than a chat’s time limit without it. When Postgres is back,
 * the sweeper can come before the process of the chats, and must not settle chats of a running
 * process.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import type { ChatLedger, ChatReserve, ChatSettle } from '../../chat/chat-moves.ts';
import { RunningChats, type RunningChat } from '../../chat/running-chats.ts';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';
import { isWhole } from '../harness/slow.ts';

const logger = createLogger('test', 'silent');
const ttlMs = 1000;
const terms = { graceMs: 1500, everyMs: 300 };
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
  expect(await database.audit()).toEqual([]);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const priceMicro = 100;
const newReserve = (): ChatReserve => ({
  organizationId,
  id: newId('chat'),
  amountMinMicro: priceMicro,
  amountMaxMicro: priceMicro,
  ttlMs,
  chat: { keyId, model: 'm', provider: 'p', streamed: false, requestId: 'r' },
});
const chatOf = ({ id }: ChatReserve): RunningChat => ({
  id,
  progress: () => ({
    id,
    servedBy: { model: 'm', provider: 'p' },
    inputTokens: 1,
    outputTokens: 1,
    amountMicro: 1,
  }),
});
const endOf = ({ id }: ChatReserve): ChatSettle => ({
  organizationId,
  id,
  servedBy: { model: 'm', provider: 'p' },
  to: 'charged',
  amountMicro: priceMicro,
  reason: 'done',
  inputTokens: 1,
  outputTokens: 1,
  countedBy: 'provider',
});
const sweep = () => chatLedger.sweep(terms);
const posted = async () => (await database.balance(organizationId))?.posted ?? 0;
const openChats = () =>
  database.query<{ id: string }>(
    `SELECT id FROM reservation WHERE organization_id = $1 AND state = 'reserved'`,
    [organizationId],
  );

/** Starts a chat in a registry of its own, and waits for its first checkpoint. */
async function runningChat() {
  const checkpointMs = 100;
  const running = new RunningChats({
    ledger: reached,
    logger,
    checkpointMs,
    reservationTtlMs: ttlMs,
  });
  const reserve = newReserve();
  await reached.reserve(reserve);
  const chat = chatOf(reserve);
  running.add(chat);
  const recorded = 'SELECT FROM reservation WHERE id = $1 AND checkpoint_micro > 0';
  await expect.poll(() => database.query(recorded, [reserve.id])).toHaveLength(1);
  return { end: () => void running.settle(chat, endOf(reserve)), drained: () => running.drained() };
}

describe('a chat', () => {
  it('of a running process survives an outage longer than its time limit, whichever process reconnects first', async () => {
    const { end, drained } = await runningChat();
    away = true;
    await sleep(ttlMs + 500);
    // The sweeper reconnects first.
    expect(await sweep()).toEqual([]);
    away = false;
    await sleep(terms.graceMs + 300);
    expect(await sweep()).toEqual([]);
    end();
    await drained();
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('survives an outage that lasts beyond the grace period', async () => {
    const { end, drained } = await runningChat();
    away = true;
    await sleep(ttlMs + 300);
    expect(await sweep()).toEqual([]);
    // The sweeper cannot reach Postgres either, until long after the grace period.
    await sleep(terms.graceMs + terms.everyMs * 3 + 300);
    expect(await sweep()).toEqual([]);
    away = false;
    end();
    await drained();
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('of a process that is gone is settled from its last checkpoint after the grace period', async () => {
    await runningChat();
    away = true;
    await sleep(ttlMs + 300);
    const missedAtMs = performance.now();
    await expect.poll(async () => (await sweep()).length, { interval: 100 }).toBe(1);
    expect(performance.now() - missedAtMs).toBeGreaterThan(terms.graceMs - 100);
    expect(await openChats()).toEqual([]);
    expect(await posted()).toBe(10_000_000 - 1);
  });

  it('that ended during an outage is charged in full when Postgres is back', async () => {
    const running = new RunningChats({
      ledger: reached,
      logger,
      checkpointMs: 100,
      reservationTtlMs: ttlMs,
    });
    const reserve = newReserve();
    await reached.reserve(reserve);
    const chat = chatOf(reserve);
    running.add(chat);
    away = true;
    void running.settle(chat, endOf(reserve));
    // Longer than a small number of attempts takes.
    await sleep(isWhole ? 21_000 : 5000);
    expect(await sweep()).toEqual([]);
    away = false;
    await expect.poll(openChats).toEqual([]);
    expect(await posted()).toBe(10_000_000 - priceMicro);
  });

  it('that cannot be settled does not keep its process from ending', async () => {
    const running = new RunningChats({
      ledger: reached,
      logger,
      checkpointMs: 100,
      reservationTtlMs: ttlMs,
    });
    const reserve = newReserve();
    await reached.reserve(reserve);
    const chat = chatOf(reserve);
    running.add(chat);
    away = true;
    void running.settle(chat, endOf(reserve));
    await running.drained();
    const twice = { ...terms, graceMs: 0 };
    expect(await chatLedger.sweep(twice)).toHaveLength(1);
  });
});
