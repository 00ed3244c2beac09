/**
 * `models`: the next model is called if the one before certainly did nothing. One reservation
 * covers the most expensive model, the model that responded is charged, and no chat is charged
 * twice.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { readChats, untilSettled, untilAllSettled } from './chat-account.ts';
import { makeClients, say, sendChat } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

// The gateway waits for a provider that hangs, although the caller has disconnected.
const gateway = useGateway({ settled: 'last', env: { CHAT_ANSWER_TIMEOUT_MS: '3000' } });
let caller: TestCaller;
afterEach(() => gateway.sandbox.clearFaults());

/** Returns the calls with unknown cost, and their estimated cost in USD. */
async function readUnknownCosts(): Promise<{ calls: number; usd: number }> {
  const { chatUnknownCostCalls, chatUnknownCostUsd } = gateway.api.services.telemetry.metrics;
  const [calls, usd] = await Promise.all(
    [chatUnknownCostCalls, chatUnknownCostUsd].map(async (metric) => {
      const { values } = await metric.get();
      return values.reduce((sum, { value }) => sum + value, 0);
    }),
  );
  return { calls: calls ?? 0, usd: usd ?? 0 };
}

/** Sends a chat of a new caller with three models, of which the first has these faults. */
async function send(faults: string) {
  await gateway.sandbox.inject({ match: '"gpt-4o"', faults });
  caller = await gateway.newCaller({ credits: 1000 });
  const models = ['claude-sonnet-5', 'gpt-5-mini'];
  return sendChat(gateway, caller, { models, messages: say('ahoy'), max_tokens: 50 });
}

describe('the next model responds and is charged', () => {
  it.each(['fail:429', 'fail:500', 'fail:503', 'fail:400', 'fail:404'])(
    'after %s',
    async (fault) => {
      const before = await readUnknownCosts();
      const { status, body } = await send(fault);
      expect(await readUnknownCosts()).toEqual(before);
      expect([status, body]).toMatchObject([
        200,
        {
          model: 'claude-sonnet-5',
          content: 'You said: ahoy',
          tried: [{ model: 'gpt-4o', error: expect.stringMatching(/^[A-Z_]+$/) }],
        },
      ]);
      const row = await untilSettled(gateway, caller);
      expect(row).toMatchObject({
        state: 'charged',
        counted_by: 'provider',
        model: 'claude-sonnet-5',
        provider: 'anthropic',
      });
      expect(body.creditsConsumed).toBe(row.charged / 1e6);
      const { values } = await gateway.api.services.telemetry.metrics.chatCostUsd.get();
      const labels = { provider: 'anthropic', model: 'claude-sonnet-5' };
      expect(values).toContainEqual(expect.objectContaining({ labels }));
    },
  );

  it('for a stream, if nothing was delivered yet', async () => {
    await gateway.sandbox.inject({ match: '"gpt-4o"', faults: 'fail:503' });
    caller = await gateway.newCaller({ credits: 1000 });
    const request = {
      model: 'gpt-4o',
      models: ['claude-sonnet-5'],
      messages: say('ahoy'),
      stream: true as const,
      stream_options: { include_usage: true },
    };
    const stream = await makeClients(gateway, caller).openai.chat.completions.create(request);
    let text = '';
    let last: unknown;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      expect(chunk.model).toBe('claude-sonnet-5');
      last = chunk;
    }
    expect(text).toBe('You said: ahoy');
    expect(last).toMatchObject({ tried: [{ model: 'gpt-4o', error: 'SERVICE_UNAVAILABLE' }] });
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'charged' });
  });

  it('or the model after it, if the next also fails', async () => {
    await gateway.sandbox.inject({ match: '"claude-sonnet-5"', faults: 'fail:529' });
    const { status, body } = await send('fail:500');
    expect([status, body.model, body.tried?.map(({ model }) => model)]).toEqual([
      200,
      'gpt-5-mini',
      ['gpt-4o', 'claude-sonnet-5'],
    ]);
  });

  it('only if the first model fails', async () => {
    const { body } = await send('slow:10ms');
    expect(body).toMatchObject({ model: 'gpt-4o' });
    expect(body).not.toHaveProperty('tried');
  });
});

describe('no other model is called', () => {
  it.each(['reset-after-accept', 'fail:502', 'fail:504', 'malformed-submit', 'hang-submit'])(
    'after %s, because the first call may be billed',
    async (fault) => {
      await gateway.sandbox.inject({ match: '"gpt-4o"', faults: fault });
      caller = await gateway.newCaller({ credits: 1000 });
      const content = `only once ${fault}`;
      const before = await readUnknownCosts();
      const leaving = AbortSignal.timeout(2000);
      const body = { model: 'gpt-4o', models: ['gpt-5-mini'], messages: say(content) };
      const answer = await postChat(gateway, caller, { body, signal: leaving }).catch(() => null);
      expect(answer?.status ?? 500).toBe(500);
      await untilAllSettled(gateway, caller);
      const received = await gateway.sandbox.chatRequests(content);
      expect(received.map(({ model }) => model)).not.toContain('gpt-5-mini');
      const [chat] = await readChats(gateway, caller);
      const after = await readUnknownCosts();
      // The call is in exactly one metric: its charge, or its unknown cost.
      expect(after.calls - before.calls).toBe(chat?.state === 'charged' ? 0 : 1);
      if (chat?.state === 'released') expect(after.usd).toBeGreaterThan(before.usd);
    },
  );

  it('after the first token of a stream', async () => {
    caller = await gateway.newCaller({ credits: 1000 });
    const content = '[[words:20]] [[stream-error:5]] begun';
    const body = { model: 'gpt-4o', models: ['gpt-5-mini'], messages: say(content), stream: true };
    const answer = await postChat(gateway, caller, { body });
    expect(await answer.text()).not.toContain('[DONE]');
    await untilAllSettled(gateway, caller);
    expect(await gateway.sandbox.chatRequests('begun')).toHaveLength(1);
  });
});

it('if all models fail, the response names the last failure and all models that were tried, and nothing is charged', async () => {
  await gateway.sandbox.inject({ match: '"ahoy"', faults: 'fail:429;retry-after=7' });
  const { status, body, headers } = await send('fail:500');
  const error = 'SERVICE_UNAVAILABLE';
  const tried = [
    { model: 'gpt-4o' },
    { model: 'claude-sonnet-5', error },
    { model: 'gpt-5-mini', error },
  ];
  expect([status, headers.get('retry-after'), body]).toMatchObject([503, '7', { error, tried }]);
  expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
});

describe('the reservation of a chat with several models', () => {
  const cheapest = { model: 'gpt-5-nano', messages: say('ahoy'), max_tokens: 100 };

  it('covers the most expensive model, whichever responds', async () => {
    const amounts: number[] = [];
    for (const models of [[], ['gpt-6-sol'], ['gpt-5-nano', 'gpt-6-sol']]) {
      caller = await gateway.newCaller({ credits: 1000 });
      const { status } = await sendChat(gateway, caller, { ...cheapest, models });
      expect(status).toBe(200);
      amounts.push((await untilSettled(gateway, caller)).amount);
    }
    const [cheap = 0, dear, both] = amounts;
    expect(dear).toBeGreaterThan(cheap);
    expect(both).toBe(dear);
  });

  it('is rejected if the balance cannot cover the most expensive model', async () => {
    caller = await gateway.newCaller({ credits: 0.1 });
    expect((await sendChat(gateway, caller, cheapest)).status).toBe(200);
    const models = ['gpt-6-sol'];
    expect(await sendChat(gateway, caller, { ...cheapest, models })).toMatchObject({
      status: 402,
      body: { error: 'INSUFFICIENT_CREDITS' },
    });
  });
});

describe('the list of models', () => {
  const sendList = (extra: object, by = gateway.caller) =>
    sendChat(gateway, by, { messages: say('x'), ...extra });

  it('is rejected before any reservation, by the name of the field, if a model is unknown or there are too many', async () => {
    expect(await sendList({ models: ['gpt-4o', 'gpt-none'] })).toMatchObject({
      status: 400,
      body: { error: 'UNKNOWN_MODEL', details: [{ path: 'models.1' }] },
    });
    expect(await sendList({ models: Array(5).fill('gpt-4o') })).toMatchObject({
      status: 400,
      body: { error: 'INVALID_REQUEST', details: [{ path: 'models' }] },
    });
    expect(await readChats(gateway, gateway.caller)).toEqual([]);
  });

  it('may contain only models that the key allows', async () => {
    const limited = await gateway.newCaller({ credits: 10, allowedModels: ['gpt-4o'] });
    const forbidden = { status: 403, body: { error: 'FORBIDDEN' } };
    expect(await sendList({ models: ['gpt-5-mini'] }, limited)).toMatchObject(forbidden);
    // The same model by another name.
    expect(await sendList({ model: 'openai/gpt-5-mini' }, limited)).toMatchObject(forbidden);
  });
});
