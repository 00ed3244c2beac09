/**
 * A chat whose numbers Postgres rejects fails alone: other chats are recorded and settled, and the
 * sweeper settles the rejected chat.
 */
import { beforeEach, expect, it } from 'vitest';
import { ChatCheckpoints } from '../../chat/chat-checkpoints.ts';
import { newId } from '../../domain/ids.ts';
import { createLogger } from '../../platform/logger.ts';
import { servedBy, useLedger, type Holder } from '../ledger/use-ledger.ts';

const ledgers = useLedger();
let of: Holder;
const tooMany = 1e30;
beforeEach(async () => {
  of = await ledgers.newHolder(1000);
});

async function reserve(): Promise<string> {
  const id = newId('chat');
  await ledgers.reserveChat(of, 10, 100, id);
  return id;
}

const makeProgress = (id: string, outputTokens: number) => {
  return { id, servedBy, inputTokens: 1, outputTokens, amountMicro: 7 };
};
const makeSettlement = (id: string, outputTokens: number) => ({
  organizationId: of.organizationId,
  id,
  to: 'charged' as const,
  amountMicro: 5,
  reason: 'test',
  inputTokens: 1,
  outputTokens,
  countedBy: 'gateway' as const,
  servedBy,
});
const readRow = async (id: string) => {
  const columns =
    'state, charged::int, checkpoint_micro::int AS checkpoint, output_tokens::int, reason';
  return (await ledgers.query(`SELECT ${columns} FROM reservation WHERE id = $1`, [id]))[0];
};

it('a checkpoint that fails does not affect the other checkpoints of its batch', async () => {
  const [first, bad, last] = await Promise.all([reserve(), reserve(), reserve()]);
  const { chatLedger } = ledgers;
  const inBatch = async (move: (id: string, outputTokens: number) => Promise<unknown>) => {
    const moves = [move(first, 2), move(bad, tooMany), move(last, 2)];
    return (await Promise.allSettled(moves)).map(({ status }) => status);
  };
  const oneRejected = ['fulfilled', 'rejected', 'fulfilled'];
  const checkpoint = (...progress: Parameters<typeof makeProgress>) =>
    chatLedger.checkpoint({ ...makeProgress(...progress), ttlMs: 60_000 });
  expect(await inBatch(checkpoint)).toEqual(oneRejected);
  for (const id of [first, last]) expect(await readRow(id)).toMatchObject({ checkpoint: 7 });
  const settle = (id: string, tokens: number) => chatLedger.settle(makeSettlement(id, tokens));
  expect(await inBatch(settle)).toEqual(oneRejected);
  await checkpoint(first, 9);
  expect(await readRow(first)).toMatchObject({ state: 'charged', charged: 5, output_tokens: 2 });
  await chatLedger.settle({ ...makeSettlement(bad, 0), to: 'released' });
});

it('the sweeper settles a chat from its last checkpoint if its own settlement fails', async () => {
  const id = await reserve();
  const { chatLedger: ledger } = ledgers;
  const options = { logger: createLogger('test', 'silent'), checkpointMs: 50 };
  const running = new ChatCheckpoints({ ledger, ...options, reservationTtlMs: 400 });
  const chat = { id, progress: () => makeProgress(id, 2) };
  running.add(chat);
  running.advanceCheckpoint(chat);
  await expect.poll(() => readRow(id), { interval: 20 }).toMatchObject({ checkpoint: 7 });
  const told = running.settle(chat, makeSettlement(id, tooMany));
  await expect
    .poll(() => ledger.sweep({ graceMs: 0, everyMs: 1000 }), { interval: 50 })
    .toMatchObject([{ id, state: 'charged', charged: 7 }]);
  expect(await readRow(id)).toMatchObject({ state: 'charged', charged: 7, reason: 'CHAT_LOST' });
  // The response shows what was charged, or no price if that took too long.
  expect([7, null]).toContain(await told);
  await running.waitUntilIdle();
});
