/**
 * A chat whose numbers Postgres rejects fails alone: other chats are recorded and settled, and the
 * sweeper settles the rejected chat.
 */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import type { ChatLedger } from '../../chat/chat-moves.ts';
import { RunningChats } from '../../chat/running-chats.ts';
import { newId } from '../../domain/ids.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

let database: TestDatabase;
let pool: DatabasePool;
let ledger: ChatLedger;
let organizationId: string;
let keyId: string;
const logger = createLogger('test', 'silent');
const servedBy = { model: 'm', provider: 'p' };
const tooMany = 1e30;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = await openDatabase({ url: database.url, poolMax: 4, logger });
  ledger = createChatLedger(pool);
});
beforeEach(async () => {
  const made = await createOrganization(pool, { name: 'isolation', windowLimitMicro: null });
  ({ organizationId } = made);
  ({ keyId } = await createKey(pool, 'a pepper that is only used in this test', {
    ...made,
    name: 'test',
  }));
  const grant = { id: 'g', amountMicro: 1000, actor: 'test', reason: 'test' };
  await createLedger(pool).grant({ organizationId, ...grant });
});
afterAll(async () => {
  expect(await database.audit()).toEqual([]);
  await pool.end();
  await database.drop();
});

async function reserve(): Promise<string> {
  const id = newId('chat');
  const chat = { keyId, ...servedBy, streamed: true, requestId: 'r' };
  const amounts = { amountMinMicro: 10, amountMaxMicro: 100 };
  await ledger.reserve({ organizationId, id, ...amounts, ttlMs: 60_000, chat });
  return id;
}

const progressOf = (id: string, outputTokens: number) => ({
  id,
  servedBy,
  inputTokens: 1,
  outputTokens,
  amountMicro: 7,
});
const settlementOf = (id: string, outputTokens: number) => ({
  organizationId,
  id,
  to: 'charged' as const,
  amountMicro: 5,
  reason: 'test',
  inputTokens: 1,
  outputTokens,
  countedBy: 'gateway' as const,
  servedBy,
});
const rowOf = async (id: string) => {
  const [row] = await database.query(
    `SELECT state, charged::integer, checkpoint_micro::integer AS checkpoint, reason
     FROM reservation WHERE id = $1`,
    [id],
  );
  return row;
};

it('a checkpoint that fails does not affect the other checkpoints of its batch', async () => {
  const [first, bad, last] = await Promise.all([reserve(), reserve(), reserve()]);
  const recorded = await Promise.allSettled([
    ledger.checkpoint({ ...progressOf(first, 2), ttlMs: 60_000 }),
    ledger.checkpoint({ ...progressOf(bad, tooMany), ttlMs: 60_000 }),
    ledger.checkpoint({ ...progressOf(last, 2), ttlMs: 60_000 }),
  ]);
  expect(recorded.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(await rowOf(first)).toMatchObject({ checkpoint: 7 });
  expect(await rowOf(last)).toMatchObject({ checkpoint: 7 });
  const settled = await Promise.allSettled([
    ledger.settle(settlementOf(first, 2)),
    ledger.settle(settlementOf(bad, tooMany)),
    ledger.settle(settlementOf(last, 2)),
  ]);
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(await rowOf(first)).toMatchObject({ state: 'charged', charged: 5 });
  await ledger.settle({ ...settlementOf(bad, 0), to: 'released' });
});

it('the sweeper settles a chat from its last checkpoint if its own settlement fails', async () => {
  const id = await reserve();
  const ttlMs = 400;
  const running = new RunningChats({ ledger, logger, checkpointMs: 50, reservationTtlMs: ttlMs });
  const { id: _, ...progress } = progressOf(id, 2);
  const chat = { id, progress: () => ({ id, ...progress }) };
  running.add(chat);
  running.started(chat);
  await expect.poll(() => rowOf(id), { interval: 20 }).toMatchObject({ checkpoint: 7 });
  // The response shows the price; the settlement is repeated in the background.
  expect(await running.settle(chat, settlementOf(id, tooMany))).toBe(5);
  await expect
    .poll(() => ledger.sweep({ graceMs: 0, everyMs: 1000 }), { interval: 50 })
    .toMatchObject([{ id, state: 'charged', charged: 7 }]);
  expect(await rowOf(id)).toMatchObject({ state: 'charged', charged: 7, reason: 'CHAT_LOST' });
  await running.drained();
});
