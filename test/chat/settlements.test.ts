/** Settlement of chats: before the answer is sent, beyond the reservation, and after a crash. */
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { runAudit } from '../../ledger/audit.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';
import { readChats, untilSettled, untilAllSettled } from './chat-account.ts';
import { say, sendChat } from './chat-clients.ts';
import { deltasIn, openChat, postChat, readRest } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

const chat = (caller: TestCaller, content: string) =>
  sendChat(gateway, caller, { model: 'claude-opus-5', messages: say(content) });

/** Micro-credits of claude-opus-5 per token. */
const opus = { input: 500, output: 2500 };

describe('a chat', () => {
  it.each([false, true])('is settled before its response ends (stream: %s)', async (stream) => {
    const caller = await gateway.newCaller({ credits: 10 });
    for (let round = 1; round <= 20; round += 1) {
      const { answer } = await openChat(gateway.url, { caller, content: 'hello', stream });
      const text = await readRest(answer);
      const rows = await readChats(gateway, caller);
      expect(rows.map(({ state }) => state)).toEqual(Array(round).fill('charged'));
      expect(text).toContain(`"creditsConsumed":${(rows[0]?.charged ?? 0) / 1e6}`);
    }
  });
});

it('parallel chats that empty a balance lose at most their limits, and the loss is recorded', async () => {
  const caller = await gateway.newCaller({ credits: 40 });
  const content = '[[slow:1s]] [[words:15000]] hello';
  const answers = await Promise.all(Array.from({ length: 6 }, () => chat(caller, content)));
  const served = answers.filter(({ status }) => status === 200);
  // Each reserves a little more than 10 credits.
  expect(served).toHaveLength(4);
  const rows = await untilAllSettled(gateway, caller);
  const sum = (of: (row: (typeof rows)[number]) => number) =>
    rows.reduce((total, row) => total + of(row), 0);
  // The fourth could pay for a shorter answer only, and its input cost less than estimated.
  const charged = sum((row) => row.charged);
  expect(charged).toBeGreaterThan(39_900_000);
  expect(charged).toBeLessThanOrEqual(40_000_000);
  const loss = sum(({ loss_micro }) => loss_micro);
  expect(loss).toBe(
    sum(
      ({ input_tokens, output_tokens }) => input_tokens * opus.input + output_tokens * opus.output,
    ) - charged,
  );
  // The bound: every chat may cost the whole balance, which is paid once.
  expect(loss).toBeGreaterThan(0);
  expect(loss).toBeLessThanOrEqual((served.length - 1) * 40_000_000);
  const reported = served.reduce((total, { body }) => total + body.creditsConsumed, 0);
  expect(reported).toBeCloseTo(charged / 1e6, 6);
  const { pool } = gateway.api.services;
  const report = await runAudit({ pool, databaseUrl: gateway.database.url });
  expect(report).toMatchObject({ clean: true, chatLossMicro: loss });
});

it('a killed process loses at most the tokens since the last checkpoint of each stream', async () => {
  const { child, port } = await gateway.spawn('api', {
    API_PORT: '0',
    CHAT_RESERVATION_TTL_MS: '6000',
  });
  const base = `http://127.0.0.1:${port}`;
  const caller = await gateway.newCaller({ credits: 100 });
  const silent = await gateway.newCaller({ credits: 100 });
  const streams = await Promise.all(
    Array.from({ length: 6 }, () =>
      openChat(base, { caller, content: '[[words:200]] [[slow-chunks:50ms]] count' }),
    ),
  );
  const body = { model: 'gpt-4o', messages: say('[[slow:60s]]') };
  const waiting = postChat(gateway, silent, { base, body }).catch(() => null);
  let delivered = 0;
  const reading = Promise.allSettled(
    streams.map(async ({ answer }) => {
      for await (const chunk of answer) delivered += deltasIn(String(chunk));
    }),
  );
  // A stream has its first checkpoint one second after its first token.
  await expect.poll(() => delivered, { timeout: 10_000 }).toBeGreaterThan(6 * 25);
  await until(async () =>
    (await readChats(gateway, caller)).every((row) => row.checkpoint_micro > 0),
  );
  expect(delivered).toBeLessThan(6 * 100);
  child.kill('SIGKILL');
  await once(child, 'exit');
  await Promise.all([reading, waiting]);
  const lost = await readChats(gateway, caller);
  const sweep = async () =>
    (await sweepOnce(gateway, { CHAT_RESERVATION_TTL_MS: 0, SWEEP_INTERVAL_MS: 1000 })).chats;
  // The reservations have not expired yet. Of two sweeps at once, one settles each chat.
  expect(await sweep()).toBe(0);
  let swept = 0;
  await expect
    .poll(
      async () => {
        for (const chats of await Promise.all([sweep(), sweep()])) swept += chats;
        return swept;
      },
      { timeout: 15_000 },
    )
    .toBe(7);
  expect(await untilSettled(gateway, silent)).toMatchObject({ state: 'released', charged: 0 });
  const rows = await untilAllSettled(gateway, caller);
  const lostBy = { state: 'charged', reason: 'CHAT_LOST', counted_by: 'gateway' };
  expect(rows).toMatchObject(lost.map((row) => ({ ...lostBy, charged: row.checkpoint_micro })));
  // A stream delivers twenty words of five characters in the second before its checkpoint. On a
  // busy machine it may deliver fewer, so only a quarter of the sum is required.
  const tokens = rows.reduce((sum, row) => sum + row.output_tokens, 0);
  expect(tokens).toBeGreaterThan((6 * 20) / 4);
  // At most what was delivered, and what each stream sent in another second.
  expect(tokens).toBeLessThanOrEqual((delivered + 6 * 25) * 1.25);
});
