/**
 * Postgres is unreachable for longer than a chat’s time limit without it. When Postgres is back,
 * the sweeper can come before the process of the chats, and must not settle chats of a running
 * process.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ChatCheckpoints } from '../../chat/chat-checkpoints.ts';
import { newId } from '../../domain/ids.ts';
import { createLogger } from '../../platform/logger.ts';
import { servedBy, useLedger, type Holder } from '../ledger/use-ledger.ts';

const ttlMs = 60_000;
const terms = { graceMs: 90_000, everyMs: 20_000 };
const priceMicro = 100;
const ledgers = useLedger();
let holder: Holder;
/** Whether the process of the chats has lost its connection to Postgres. */
let away: boolean;
/** Ends with the operations of the ledger that began before Postgres went away. */
let unfinished: Promise<unknown>;

beforeEach(async () => {
  away = false;
  unfinished = Promise.resolve();
  holder = await ledgers.newHolder(10_000_000);
});
afterEach(() => vi.useRealTimers());

const sweep = () => ledgers.chatLedger.sweep(terms);
const readPosted = async () => (await ledgers.database.balance(holder.organizationId))?.posted ?? 0;
const readOpenChats = () =>
  ledgers.query<{ id: string }>(
    `SELECT id FROM reservation WHERE organization_id = $1 AND state = 'reserved'`,
    [holder.organizationId],
  );
/** Lets time pass in the database, by moving the times of the chats into the past. */
const pass = (ms: number) =>
  ledgers.query(
    `UPDATE reservation SET expires_at = expires_at - $1 * interval '1 millisecond',
       owner_missing_at = owner_missing_at - $1 * interval '1 millisecond'
     WHERE state = 'reserved'`,
    [ms],
  );

/** Makes an operation of the ledger fail while Postgres is away. */
const reach =
  <Args extends unknown[], Result>(operation: (...args: Args) => Promise<Result>) =>
  (...args: Args): Promise<Result> => {
    if (away) return Promise.reject(new Error('Postgres is away'));
    const result = operation(...args);
    unfinished = Promise.allSettled([unfinished, result]);
    return result;
  };
/** Makes all further operations of the ledger fail. */
async function takePostgresAway(): Promise<void> {
  away = true;
  await unfinished;
}

/** Starts a chat in a process of its own. */
async function startChat({ checkpointMs }: { checkpointMs: number }) {
  const { chatLedger: ledger } = ledgers;
  const running = new ChatCheckpoints({
    ledger: { ...ledger, settle: reach(ledger.settle), checkpoint: reach(ledger.checkpoint) },
    logger: createLogger('test', 'silent'),
    checkpointMs,
    reservationTtlMs: ttlMs,
  });
  const id = newId('chat');
  await ledgers.reserveChat(holder, priceMicro, priceMicro, id);
  const tokens = { inputTokens: 1, outputTokens: 1 };
  // A fallback, not the model of the reservation.
  const fallback = { model: 'm2', provider: 'p2' };
  const chat = { id, progress: () => ({ id, servedBy: fallback, ...tokens, amountMicro: 1 }) };
  running.add(chat);
  const { organizationId } = holder;
  const end = { organizationId, id, servedBy, ...tokens, amountMicro: priceMicro } as const;
  return {
    end: () =>
      running.settle(chat, { ...end, to: 'charged', reason: 'done', countedBy: 'provider' }),
    waitUntilIdle: () => running.waitUntilIdle(),
    /** Waits until the progress was recorded after now. */
    recorded: async () => {
      await ledgers.query('UPDATE reservation SET checkpoint_micro = 0 WHERE id = $1', [id]);
      const progress = `SELECT FROM reservation
        WHERE id = $1 AND checkpoint_micro > 0 AND model = 'm2' AND provider = 'p2'`;
      await expect.poll(() => ledgers.query(progress, [id])).toHaveLength(1);
    },
  };
}

describe('a chat', () => {
  it('of a running process survives an outage longer than its time limit, whichever process reconnects first', async () => {
    const { end, waitUntilIdle, recorded } = await startChat({ checkpointMs: 100 });
    await recorded();
    await takePostgresAway();
    await pass(ttlMs + 500);
    // The sweeper reconnects first, and begins a grace period.
    expect(await sweep()).toEqual([]);
    away = false;
    await recorded();
    await pass(ttlMs - 5000);
    expect(await sweep()).toEqual([]);
    void end();
    await waitUntilIdle();
    expect(await readPosted()).toBe(10_000_000 - priceMicro);
  });

  it('survives an outage that lasts beyond the grace period', async () => {
    const { end, waitUntilIdle, recorded } = await startChat({ checkpointMs: 100 });
    await recorded();
    await takePostgresAway();
    await pass(ttlMs + 300);
    expect(await sweep()).toEqual([]);
    // The sweeper cannot reach Postgres either, until long after the grace period.
    await pass(terms.graceMs + terms.everyMs * 3 + 300);
    expect(await sweep()).toEqual([]);
    away = false;
    void end();
    await waitUntilIdle();
    expect(await readPosted()).toBe(10_000_000 - priceMicro);
  });

  it('of a process that is gone is settled from its last checkpoint after the grace period', async () => {
    const { recorded, end } = await startChat({ checkpointMs: 100 });
    await recorded();
    await takePostgresAway();
    await pass(ttlMs + 300);
    expect(await sweep()).toEqual([]);
    await pass(terms.graceMs - 10_000);
    expect(await sweep()).toEqual([]);
    await pass(10_000);
    expect(await sweep()).toHaveLength(1);
    expect(await readOpenChats()).toEqual([]);
    expect(await readPosted()).toBe(10_000_000 - 1);
    away = false;
    expect(await end()).toBe(1);
  });

  it('that ended during an outage is charged in full when Postgres is back, a minute later', async () => {
    const { end } = await startChat({ checkpointMs: ttlMs });
    await takePostgresAway();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const told = end();
    await vi.advanceTimersByTimeAsync(60_000);
    // The response did not wait for Postgres, and shows no price.
    expect(await told).toBeNull();
    expect(await readOpenChats()).toHaveLength(1);
    away = false;
    await vi.advanceTimersByTimeAsync(5000);
    vi.useRealTimers();
    await expect.poll(readOpenChats).toEqual([]);
    expect(await readPosted()).toBe(10_000_000 - priceMicro);
  });

  it('that ends while its progress is being recorded is not recorded again', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const checkpoint = vi.spyOn(ledgers.chatLedger, 'checkpoint').mockReturnValue(promise);
    onTestFinished(() => checkpoint.mockRestore());
    const { end, waitUntilIdle } = await startChat({ checkpointMs: 10 });
    await expect.poll(() => checkpoint.mock.calls).toHaveLength(1);
    void end();
    await waitUntilIdle();
    resolve();
    await sleep(50);
    expect(checkpoint).toHaveBeenCalledTimes(1);
  });

  it('that cannot be settled does not keep its process from ending', async () => {
    const { end, waitUntilIdle } = await startChat({ checkpointMs: ttlMs });
    await takePostgresAway();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    void end();
    const ending = waitUntilIdle();
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    await ending;
    await pass(ttlMs + 300);
    expect(await ledgers.chatLedger.sweep({ ...terms, graceMs: 0 })).toHaveLength(1);
  });
});
