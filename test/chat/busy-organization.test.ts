/**
 * An organization with chats in several APIs at once is charged for each once, and never above
 * its balance.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { creditsFromMicro } from '../../domain/credits.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { untilSettled, untilAllSettled } from './chat-account.ts';
import { say } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });
let bases: string[];
beforeAll(async () => {
  bases = [gateway.url, await gateway.startSecondApi()];
});

/** Sends chats through both APIs at once; returns the statuses of the responses, in order. */
async function chats(
  count: number,
  { caller, content, stream }: { caller: TestCaller; content: string; stream: boolean },
): Promise<number[]> {
  const body = { model: 'gpt-4o', messages: say(content), max_tokens: 100, stream };
  const statuses = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const base = bases[index % bases.length] ?? gateway.url;
      const answer = await postChat(gateway, caller, { base, body });
      await answer.arrayBuffer();
      return answer.status;
    }),
  );
  return statuses.toSorted();
}

describe('an organization with many parallel chats', () => {
  it('has one record per chat, and is charged their sum', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const statuses = await chats(100, { caller, content: 'hello', stream: false });
    expect(statuses).toEqual(Array(100).fill(200));
    const rows = await untilAllSettled(gateway, caller);
    expect(rows).toHaveLength(100);
    const charged = rows.reduce((sum, row) => sum + row.charged, 0);
    expect(charged).toBeGreaterThan(0);
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance).toMatchObject({ posted: 1_000_000_000 - charged, reserved: 0 });
  });

  it.each([false, true])(
    'pays ten of them with a balance for ten, and never more (streamed: %s)',
    async (stream) => {
      // The provider counts as many tokens as are reserved: 52 characters / 4 + 4, and the answer.
      const content = '[[counted-input:17]] [[words:100]] [[slow:1s]] hello';
      const first = await gateway.newCaller({ credits: 100 });
      expect(await chats(1, { caller: first, content, stream })).toEqual([200]);
      const { amount, charged } = await untilSettled(gateway, first);
      expect(charged).toBe(amount);
      const caller = await gateway.newCaller({ credits: creditsFromMicro(charged * 10) });
      const statuses = await chats(60, { caller, content, stream });
      expect(statuses).toEqual([...Array(10).fill(200), ...Array(50).fill(402)]);
      expect(await untilAllSettled(gateway, caller)).toHaveLength(10);
      const balance = await gateway.database.balance(caller.organizationId);
      expect(balance).toMatchObject({ posted: 0, reserved: 0 });
    },
  );
});
