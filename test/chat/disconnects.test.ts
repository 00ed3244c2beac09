/**
 * Callers that disconnect: once the request was sent to the provider, the input is charged, unless
 * the provider responds with an error.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { command } from '../../platform/database.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { untilSettled } from './chat-account.ts';
import { say } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

// With one connection to the provider, a connection that is kept after its caller disconnected fails the next chat.
const gateway = useGateway({ settled: 'last', env: { CHAT_CONNECTIONS_MAX: '1' } });

interface SentChat {
  content: string;
  model?: string;
  stream?: boolean;
  idempotencyKey?: string;
}

const chatCalls = async () => (await gateway.sandbox.counters())['chatCalls'] ?? 0;

function send(caller: TestCaller, sent: SentChat, signal?: AbortSignal): Promise<Response> {
  const { content, model = 'gpt-4o', stream = true, idempotencyKey } = sent;
  return postChat(gateway, caller, {
    body: { model, messages: say(content), stream, max_tokens: 100 },
    ...(idempotencyKey !== undefined && { headers: { 'idempotency-key': idempotencyKey } }),
    ...(signal && { signal }),
  });
}

/**
 * Sends a chat, disconnects half a second after the provider was called, and returns the text that
 * was received until then.
 */
async function disconnect(caller: TestCaller, sent: SentChat): Promise<string> {
  const calls = (await chatCalls()) + 1;
  const controller = new AbortController();
  void expect
    .poll(chatCalls)
    .toBeGreaterThanOrEqual(calls)
    .then(() => sleep(500))
    .finally(() => controller.abort());
  let text = '';
  try {
    const answer = await send(caller, sent, controller.signal);
    for await (const chunk of answer.body ?? [])
      text += Buffer.from(chunk as Uint8Array).toString();
  } catch {
    // The caller has disconnected.
  }
  return text;
}

const newCaller = () => gateway.newCaller({ credits: 100 });

describe('a caller that disconnects before the first token of a stream', () => {
  it('is charged for the input that the provider counted', async () => {
    const caller = await newCaller();
    const content = `[[counted-input:5000]] [[slow-chunks:60s]] ${'word '.repeat(2000)}`;
    const text = await disconnect(caller, { content, model: 'claude-sonnet-5' });
    expect(text).not.toContain('delta');
    expect(await untilSettled(gateway, caller)).toMatchObject({
      state: 'charged',
      reason: 'chat left',
      input_tokens: 5000,
      output_tokens: 0,
      // No output was delivered, so none is charged.
      charged: 5000 * 200,
    });
  });

  it('is charged for the gateway’s count of the input if the provider reported none', async () => {
    const caller = await newCaller();
    await disconnect(caller, { content: '[[slow-chunks:60s]] tell me' });
    const row = await untilSettled(gateway, caller);
    expect(row).toMatchObject({ state: 'charged', output_tokens: 0, counted_by: 'gateway' });
    expect(row.charged).toBe(row.input_tokens * 250);
  });
});

describe('a caller that disconnects before the provider responds', () => {
  it.each(['gpt-4o', 'claude-sonnet-5'])(
    'is charged for the estimated input (%s)',
    async (model) => {
      const caller = await newCaller();
      // 20 streams of 99,000 tokens, left after 0.6 s, once cost nothing.
      await disconnect(caller, { content: `[[slow:60s]] ${'word '.repeat(20_000)}`, model });
      const row = await untilSettled(gateway, caller);
      expect(row).toMatchObject({
        state: 'charged',
        reason: 'chat left',
        counted_by: 'gateway',
        output_tokens: 0,
        charged: row.input_tokens * (model === 'gpt-4o' ? 250 : 200),
      });
      expect(row.input_tokens).toBeGreaterThan(25_000);
    },
  );
});

it('a caller that disconnects before its request is sent to the provider is charged nothing', async () => {
  const caller = await newCaller();
  const calls = await chatCalls();
  const waiting = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%ledger_apply%' AND wait_event_type = 'Lock'`;
  // The reservation waits for the lock of the account.
  await gateway.api.services.pool.transaction(async (transaction) => {
    await transaction.query(
      command`SELECT FROM account WHERE organization_id = ${caller.organizationId} FOR UPDATE`,
    );
    const leaving = new AbortController();
    const sent = send(caller, { content: 'hello', stream: false }, leaving.signal);
    await expect.poll(() => gateway.database.query(waiting)).toHaveLength(1);
    leaving.abort();
    await expect(sent).rejects.toThrow();
    // Meanwhile the API notices that the caller closed the connection.
    await sleep(300);
  });
  expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  expect(await chatCalls()).toBe(calls);
});

it('a caller that disconnects from a whole response is charged for it, and a retry receives it', async () => {
  const caller = await newCaller();
  const sent = { content: '[[slow:1500ms]] [[words:30]]', stream: false, idempotencyKey: 'one' };
  await disconnect(caller, sent);
  expect(await untilSettled(gateway, caller)).toMatchObject({
    state: 'charged',
    counted_by: 'provider',
    output_tokens: 30,
  });
  await expect
    .poll(async () => (await send(caller, sent)).headers.get('idempotent-replayed'))
    .toBe('true');
});
