/**
 * POST /api/v1/chat: the service’s own format (spec §2.2–2.4), rejections and reservations.
 */
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ChatResponse } from '../../api/endpoints/chat-completions.ts';
import { createUpstreams } from '../../chat/upstreams.ts';
import { UnbilledFailure } from '../../chat/upstream-failures.ts';
import { readChatUpstreams } from '../../platform/config-variables.ts';
import { useGateway, type StudioBody, type TestCaller } from '../harness/gateway.ts';
import { readChats, untilSettled } from './chat-account.ts';
import { sendChat } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

const path = '/api/v1/chat';
const say = (content: unknown) => [{ role: 'user', content }];
const chat = (body: unknown, caller: TestCaller = gateway.caller) =>
  gateway.call<ChatResponse & StudioBody>(path, { body, key: caller.key });

async function stream(body: object): Promise<{ type: string | null; events: string[] }> {
  const answer = await postChat(gateway, gateway.caller, { body: { ...body, stream: true } });
  const events = (await answer.text()).split('\n\n').filter(Boolean);
  return { type: answer.headers.get('content-type'), events };
}

const parseData = (event: string | undefined): Record<string, unknown> =>
  JSON.parse((event ?? '').replace(/^data: /, ''));

describe('a whole response', () => {
  it('has the fields of the specification and the catalog’s price', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const answer = await chat({ model: 'gpt-4o', messages: say('one two three') }, caller);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^chat_[0-9a-f]{32}$/),
      model: 'gpt-4o',
      content: 'You said: one two three',
      finishReason: 'stop',
      usage: { inputTokens: 3, outputTokens: 5, totalTokens: 8 },
      // 3 × 2.5 + 5 × 10 USD per million tokens, at 0.01 USD a credit.
      creditsConsumed: 0.00575,
    });
    const limit = String(gateway.config.RATE_LIMIT_PER_MINUTE);
    expect(answer.headers.get('x-ratelimit-limit')).toBe(limit);
    expect(answer.headers.get('x-request-id')).toMatch(/./);
    const row = await untilSettled(gateway, caller);
    expect(row).toMatchObject({ id: answer.body.id, state: 'charged', charged: 5750 });
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance).toEqual({ posted: 99_994_250, reserved: 0, available: 99_994_250 });
  });

  it('has its price rounded up once', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    // 1 × 0.075 + 3 × 0.3 USD per million = 97.5 micro-credits.
    await chat({ model: 'groq/openai/gpt-oss-20b', messages: say('x'), max_tokens: 9 }, caller);
    expect(await untilSettled(gateway, caller)).toMatchObject({ charged: 98 });
  });
});

describe('a stream', () => {
  it('sends deltas, then done, then [DONE]', async () => {
    const { type, events } = await stream({ model: 'claude-sonnet-5', messages: say('a b') });
    expect(type).toBe('text/event-stream; charset=utf-8');
    expect(events.at(-1)).toBe('data: [DONE]');
    const done = parseData(events.at(-2));
    expect(done).toEqual({
      id: expect.stringMatching(/^chat_/),
      model: 'claude-sonnet-5',
      type: 'done',
      finishReason: 'stop',
      usage: { inputTokens: 2, outputTokens: 4, totalTokens: 6 },
      creditsConsumed: expect.any(Number),
    });
    const deltas = events.slice(0, -2).map(parseData);
    expect(deltas.every((delta) => delta['type'] === 'delta')).toBe(true);
    expect(new Set(deltas.map((delta) => delta['id']))).toEqual(new Set([done['id']]));
    expect(deltas.map((delta) => delta['delta']).join('')).toBe('You said: a b');
  });

  it('that breaks ends with an error event and never with [DONE]', async () => {
    const { events } = await stream({
      model: 'gpt-4o',
      messages: say('[[words:20]] [[stream-cut:3]]'),
    });
    expect(parseData(events.at(-1))).toEqual({
      id: expect.stringMatching(/^chat_/),
      model: 'gpt-4o',
      type: 'error',
      error: 'PROVIDER_ERROR',
      message: "The provider's response was incomplete or invalid.",
      requestId: expect.any(String),
      // The gateway’s count, because the upstream reports none: 31 and 15 characters are 12 and 4
      // tokens.
      usage: { inputTokens: 12, outputTokens: 4, totalTokens: 16 },
      creditsConsumed: expect.any(Number),
    });
    expect(events.join()).not.toContain('[DONE]');
  });

  it('that fails before its first token is an ordinary error response', async () => {
    for (const marker of ['[[fail:500]]', '[[stream-error:0]] [[words:3]]', '[[stream-cut:0]]']) {
      const answer = await chat({ model: 'gpt-4o', messages: say(marker), stream: true });
      expect([answer.status, answer.body.error], marker).toEqual([500, 'PROVIDER_ERROR']);
    }
  });
});

describe('an invalid request', () => {
  const valid = { model: 'gpt-4o', messages: say('x') };
  it.each([
    ['no content', { ...valid, messages: [{ role: 'user' }] }, 'messages.0.content'],
    ['null content', { ...valid, messages: say(null) }, 'messages.0.content'],
    ['no parts', { ...valid, messages: say([]) }, 'messages.0.content'],
    ['an unknown part', { ...valid, messages: say([{ type: 'smell' }]) }, 'messages.0.content'],
    ['a temperature below 0', { ...valid, temperature: -0.1 }, 'temperature'],
    ['max_tokens of 0', { ...valid, max_tokens: 0 }, 'max_tokens'],
    ['a fraction of tokens', { ...valid, max_tokens: 1.5 }, 'max_tokens'],
    ['a list', [valid], '(body)'],
  ])('with %s has a 400 response that names the field', async (_name, body, field) => {
    const answer = await chat(body);
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expect(`${answer.body.message} ${JSON.stringify(answer.body.details)}`).toContain(field);
  });

  it.each([
    ['web_search_options', { web_search_options: {} }],
    ['modalities.0', { modalities: ['audio'] }],
    ['audio', { audio: { voice: 'alloy', format: 'mp3' } }],
    ['functions', { functions: [{ name: 'x' }] }],
    ['service_tier', { service_tier: 'priority' }],
    ['stream_options', { stream_options: { include_usage: true } }],
  ])(
    'with %s is rejected by name, because it changes the kind or the price of the response',
    async (param, extra) => {
      const answer = await gateway.call(`${path}/completions`, { body: { ...valid, ...extra } });
      expect(answer).toMatchObject({
        status: 400,
        body: { error: { code: 'INVALID_REQUEST', param } },
      });
    },
  );

  it('with an image for a text model is rejected', async () => {
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    const answer = await chat({ model: 'codestral-latest', messages: say([image]) });
    expect([answer.status, answer.body.error]).toEqual([400, 'UNSUPPORTED_PARAMETER']);
    expect(answer.body.message).toContain('messages.0.content.0');
  });

  it('reserves nothing, and never reaches the provider', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    await chat({ ...valid, messages: say('unheard'), temperature: 9 }, caller);
    expect(await readChats(gateway, caller)).toEqual([]);
    expect(await gateway.sandbox.chatRequests('unheard')).toEqual([]);
  });

  it('above 20 MB is rejected, and a body of 8 MB is accepted', async () => {
    const large = await chat({ ...valid, messages: say(`[[words:2]]${'x'.repeat(8_000_000)}`) });
    expect(large).toMatchObject({ status: 200, body: { content: expect.any(String) } });
    const answer = await chat({ ...valid, messages: say('x'.repeat(21 * 1024 * 1024)) });
    expect([answer.status, answer.body.error]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
  });
});

describe('the reservation of a chat', () => {
  it('is rejected with 402 before any byte if the balance cannot cover the caller’s max_tokens', async () => {
    const caller = await gateway.newCaller({ credits: 0.1 });
    const answer = await chat(
      { model: 'gpt-4o', messages: say('unaffordable'), max_tokens: 1000, stream: true },
      caller,
    );
    expect(answer.status).toBe(402);
    // The input: 12 characters / 4 and 4 for the message, at 250; 1,000 tokens at 1,000.
    expect(answer.body).toMatchObject({
      error: 'INSUFFICIENT_CREDITS',
      required: 1.00175,
      available: 0.1,
      reserved: 0,
    });
    expect(await readChats(gateway, caller)).toEqual([]);
    expect(await gateway.sandbox.chatRequests('unaffordable')).toEqual([]);
  });

  it('without max_tokens covers as much as the balance can pay, and the upstream receives that limit', async () => {
    const caller = await gateway.newCaller({ credits: 0.105 });
    const answer = await chat({ model: 'gpt-4o', messages: say('[[words:500]] poor') }, caller);
    expect(answer.status).toBe(200);
    const [witness] = await gateway.sandbox.chatRequests('[[words:500]] poor');
    // 105,000 micro-credits less 9 × 250 for the input, at 1,000 a token.
    expect(witness?.['max_completion_tokens']).toBe(102);
    expect(answer.body.usage.outputTokens).toBe(102);
    expect(await untilSettled(gateway, caller)).toMatchObject({ amount: 105_000 });
  });

  it('is rejected if the balance cannot cover a short answer', async () => {
    const caller = await gateway.newCaller({ credits: 0.01 });
    expect((await chat({ model: 'gpt-4o', messages: say('x') }, caller)).status).toBe(402);
  });

  it('covers the longest answer; max_tokens above the model’s limit is rejected', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const body = { model: 'gpt-4o', messages: say('huge') };
    await chat({ ...body, max_tokens: 16_384 }, caller);
    expect(await untilSettled(gateway, caller)).toMatchObject({
      amount: 16_384 * 1000 + (1 + 4) * 250,
    });
    const more = await chat({ ...body, max_tokens: 16_385 }, caller);
    expect(more).toMatchObject({
      status: 400,
      body: {
        error: 'INVALID_REQUEST',
        message: 'max_tokens: must be at most 16384 with gpt-4o (received 16385)',
      },
    });
  });

  it('covers all of several answers', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const body = { model: 'gpt-4o', messages: say('many'), max_tokens: 10, n: 3 };
    const answer = await sendChat(gateway, caller, body, `${path}/completions`);
    expect(answer.body.usage.outputTokens).toBe(9);
    expect(await untilSettled(gateway, caller)).toMatchObject({
      amount: 30 * 1000 + (1 + 4) * 250,
    });
    // The shortest answers have 16 tokens each.
    const poor = await gateway.newCaller({ credits: 0.1 });
    const many = { model: 'gpt-4o', messages: say('x'), n: 8 };
    expect((await sendChat(gateway, poor, many, `${path}/completions`)).status).toBe(402);
  });
});

describe('the settings of chat providers', () => {
  it('apply to models of both protocols at one provider', () => {
    const { chatCatalog } = gateway.api.services;
    const upstreams = createUpstreams(gateway.config);
    onTestFinished(upstreams.close);
    const paths = (['openai', 'anthropic'] as const).map(
      (protocol) => upstreams.get({ ...chatCatalog.find('gpt-4o'), protocol }).protocol.path,
    );
    expect(paths).toEqual(['/chat/completions', '/v1/messages']);
  });

  it('that make a request impossible bill nothing, so that the next model is called', async () => {
    const model = gateway.api.services.chatCatalog.find('gpt-4o');
    const CHAT_UPSTREAMS = {
      [model.provider]: { apiKey: 'a key\n', baseUrl: gateway.sandbox.url },
    };
    const upstreams = createUpstreams({ ...gateway.config, CHAT_UPSTREAMS });
    onTestFinished(upstreams.close);
    const sent = upstreams.get(model).fetchText({
      body: '{}',
      signal: AbortSignal.timeout(30_000),
      onSent: () => {},
      onRejected: () => {},
    });
    const failure = await sent.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UnbilledFailure);
    expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('are read from the environment, API keys first', () => {
    const environment = {
      XAI_API_KEY: 'k1',
      OPENAI_API_KEY: 'k2',
      OPENAI_BASE_URL: 'https://proxy.example/v1',
      GROQ_BASE_URL: 'https://ignored.example',
      CHAT_UPSTREAMS: '{"mine":{"apiKey":"k3","baseUrl":"http://gpu.example:8000/v1"}}',
    };
    expect(readChatUpstreams(environment, ['openai', 'xai', 'groq'])).toEqual({
      xai: { apiKey: 'k1' },
      openai: { apiKey: 'k2', baseUrl: 'https://proxy.example/v1' },
      mine: { apiKey: 'k3', baseUrl: 'http://gpu.example:8000/v1' },
    });
    expect(() => readChatUpstreams({ CHAT_UPSTREAMS: '{' }, [])).toThrow('CHAT_UPSTREAMS');
    expect(() => readChatUpstreams({ XAI_API_KEY: 'k', XAI_BASE_URL: 'x' }, ['xai'])).toThrow(
      'XAI_BASE_URL',
    );
  });
});
