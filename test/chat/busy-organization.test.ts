/**
 * An organization with chats in several APIs at once is charged for each once, and never above
 * its balance.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { creditsFromMicro } from '../../domain/credits.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { settledChatOf, settledChatsOf } from './chat-account.ts';

const gateway = useGateway();
let bases: string[];
beforeAll(async () => {
  bases = [gateway.url, await gateway.secondApi()];
});

async function chat(caller: TestCaller, content: string, base = gateway.url): Promise<number> {
  const answer = await fetch(`${base}/api/v1/chat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'gpt-4o',
      messages: [{ role: 'user', content }],
      max_tokens: 100,
    }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** Sends chats through both APIs, twenty at once. */
async function chats(count: number, caller: TestCaller, content: string): Promise<number[]> {
  const statuses: number[] = [];
  let begun = 0;
  const loops = Array.from({ length: 20 }, async (_, index) => {
    while (begun < count) {
      begun += 1;
      statuses.push(await chat(caller, content, bases[index % bases.length]));
    }
  });
  await Promise.all(loops);
  return statuses;
}

describe('an organization with many parallel chats', () => {
  it('has one record per chat, and is charged their sum', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const statuses = await chats(400, caller, 'hello');
    expect(statuses).toEqual(Array.from({ length: 400 }, () => 200));
    const rows = await settledChatsOf(gateway, caller);
    expect(rows).toHaveLength(400);
    const charged = rows.reduce((sum, row) => sum + row.charged, 0);
    expect(charged).toBeGreaterThan(0);
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance).toMatchObject({ posted: 1_000_000_000 - charged, reserved: 0 });
  });

  it('is charged up to its balance, and never more', async () => {
    // The provider counts as many tokens as are reserved: 40 characters / 4 + 4, and the answer.
    const dear = '[[counted-input:14]] [[words:100]] hello';
    const first = await gateway.newCaller({ credits: 100 });
    expect(await chat(first, dear)).toBe(200);
    const { charged } = await settledChatOf(gateway, first);
    const caller = await gateway.newCaller({ credits: creditsFromMicro(charged * 100) });
    const statuses = await chats(300, caller, dear);
    expect(statuses.filter((status) => status === 200)).toHaveLength(100);
    expect(statuses.filter((status) => status === 402)).toHaveLength(200);
    await gateway.expectSettled();
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance).toMatchObject({ posted: 0, reserved: 0 });
  });
});
