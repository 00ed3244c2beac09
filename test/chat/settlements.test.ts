/** Settlement of chats: before the answer ends, and when the settlement takes long. */
import { describe, expect, it } from 'vitest';
import { command } from '../../platform/database.ts';
import { useGateway } from '../harness/gateway.ts';
import { readChats, untilSettled } from './chat-account.ts';
import { say } from './chat-clients.ts';
import { openChat, postChat, readRest } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

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

it.each([false, true])(
  'a response leaves without a price if its settlement is not confirmed within some seconds (stream: %s)',
  async (stream) => {
    const caller = await gateway.newCaller({ credits: 10 });
    const body = { model: 'gpt-4o', messages: say(`hello ${stream} [[slow:900s]]`), stream };
    const headers = { 'idempotency-key': `no-price-${stream}` };
    const post = () => postChat(gateway, caller, { body, headers });
    const posted = post();
    await expect.poll(() => gateway.sandbox.chatRequests(`hello ${stream} `)).toHaveLength(1);
    let text = '';
    await gateway.api.services.pool.transaction(async (transaction) => {
      await transaction.query(
        command`SELECT FROM account WHERE organization_id = ${caller.organizationId} FOR UPDATE`,
      );
      await gateway.sandbox.clearFaults();
      text = await (await posted).text();
      expect(text).toContain('"creditsConsumed":null');
      expect(text.includes('[DONE]')).toBe(stream);
    });
    const row = await untilSettled(gateway, caller);
    expect(row).toMatchObject({ state: 'charged', counted_by: 'provider' });
    const [, id = ''] = /"id":"(chat_\w+)"/.exec(text) ?? [];
    const shown = await gateway.call(`/api/v1/chats/${id}`, { key: caller.key });
    expect(shown.body).toMatchObject({ data: { credits: row.charged / 1e6 } });
    // A repeat gets the same bytes, and is no second chat.
    const repeated = await post();
    expect(await repeated.text()).toBe(text);
    expect(await readChats(gateway, caller)).toHaveLength(1);
  },
);
