/** Anthropic's own client, pointed at the gateway, over both upstream protocols. */
import Anthropic, { AuthenticationError, NotFoundError } from '@anthropic-ai/sdk';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilSettled } from './chat-account.ts';
import { makeClients, onePixel, say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

const weather = {
  name: 'look_outside',
  description: 'Returns the weather.',
  input_schema: {
    type: 'object' as const,
    properties: { text: { type: 'string' } },
    required: ['text'],
  },
};
describe.each([
  ['an Anthropic upstream', 'claude-sonnet-5', ''],
  ['an OpenAI upstream', 'gpt-4o', '/api'],
  ['a name with its maker', 'anthropic/claude-sonnet-5', ''],
])('Anthropic’s client over %s', (_name, model, base) => {
  const messages = () => clients.anthropic.withOptions({ baseURL: gateway.url + base }).messages;

  it('receives a message, and the charge equals its reported usage', async () => {
    const message = await messages().create({
      model,
      max_tokens: 50,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: say('hello there'),
    });
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: model.replace('anthropic/', ''),
      content: [{ type: 'text', text: 'You said: hello there' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { output_tokens: 4 },
    });
    const { usage } = message;
    const { cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
    expect(usage.input_tokens + (read ?? 0) + (written ?? 0)).toBe(4);
    const row = await untilSettled(gateway, clients.caller);
    expect(row).toMatchObject({ state: 'charged', input_tokens: 4, output_tokens: 4 });
    expect(message).toMatchObject({ creditsConsumed: row.charged / 1e6 });
    expect(await gateway.database.entryKinds(row.id)).toEqual(['reserve', 'charge']);
  });

  it('receives a stream, with its events in their documented order', async () => {
    const stream = messages().stream({ model, max_tokens: 50, messages: say('a b c') });
    const received: string[] = [];
    const types: string[] = [];
    stream.on('text', (text) => received.push(text));
    stream.on('streamEvent', ({ type }) => types.at(-1) !== type && types.push(type));
    expect(await stream.finalMessage()).toMatchObject({
      content: [{ type: 'text', text: 'You said: a b c' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 3, output_tokens: 5 },
    });
    expect(received.length).toBeGreaterThan(2);
    expect(received.join('')).toBe('You said: a b c');
    expect(types).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const row = await untilSettled(gateway, clients.caller);
    expect(row).toMatchObject({ state: 'charged' });
  });

  it.each([false, true])('receives the call of a tool (streamed: %s)', async (stream) => {
    const tool_choice = { type: 'any' as const };
    const request = { model, max_tokens: 50, messages: say('look'), tools: [weather], tool_choice };
    const message = await (stream
      ? messages().stream(request).finalMessage()
      : messages().create(request));
    const id = expect.stringMatching(/./);
    expect(message).toMatchObject({
      stop_reason: 'tool_use',
      content: [{ type: 'tool_use', id, name: 'look_outside', input: { text: 'look' } }],
    });
  });
});

describe('the request to the upstream', () => {
  it('contains the caller’s fields under the upstream’s names', async () => {
    const messages = [
      {
        role: 'user' as const,
        content: [
          { type: 'text' as const, text: 'witness of messages' },
          {
            type: 'image' as const,
            source: { type: 'base64' as const, media_type: 'image/png' as const, data: onePixel },
          },
        ],
      },
    ];
    // The types of the client no longer have the field, but some models accept it.
    const sampling = { temperature: 0.5 };
    for (const model of ['claude-sonnet-5', 'gpt-4o']) {
      await clients.anthropic.messages.create({
        model,
        max_tokens: 33,
        messages,
        system: 'one',
        ...sampling,
        stop_sequences: ['END'],
        metadata: { user_id: 'u1' },
        thinking: { type: 'disabled' },
        tools: [weather],
        tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      });
    }
    const [anthropic, openai] = await gateway.sandbox.chatRequests('witness of messages');
    expect(anthropic).toEqual({
      model: 'claude-sonnet-5',
      max_tokens: 33,
      system: 'one',
      messages,
      temperature: 0.5,
      stop_sequences: ['END'],
      metadata: { user_id: 'u1' },
      thinking: { type: 'disabled' },
      tools: [weather],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    });
    expect(openai).toMatchObject({
      max_completion_tokens: 33,
      messages: [{ role: 'system', content: 'one' }, { role: 'user' }],
      parallel_tool_calls: false,
      tools: [{ function: { name: 'look_outside' } }],
      user: 'u1',
    });
  });
});

describe('errors of the messages endpoint', () => {
  it('have Anthropic’s shape, and become its client’s error classes', async () => {
    const request = { model: 'gpt-4o', max_tokens: 10, messages: say('x') };
    const wrong = new Anthropic({ apiKey: 'unknown', baseURL: gateway.url, maxRetries: 0 });
    await expect(wrong.messages.create(request)).rejects.toBeInstanceOf(AuthenticationError);
    await expect(clients.message({ ...request, model: 'claude-none' })).rejects.toMatchObject({
      status: 404,
      error: {
        type: 'error',
        error: { type: 'not_found_error', code: 'UNKNOWN_MODEL' },
        request_id: expect.stringMatching(/^req_/),
      },
      message: expect.stringContaining('does not exist'),
    });
    const poor = makeClients(gateway, await gateway.newCaller({ credits: 0 }));
    await expect(poor.message(request)).rejects.toMatchObject({
      status: 402,
      error: { error: { type: 'billing_error' }, required: expect.any(Number) },
    });
    const messages = say('[[fail:429]] please');
    await expect(clients.message({ ...request, messages })).rejects.toMatchObject({
      status: 503,
      error: { error: { type: 'overloaded_error' } },
    });
    const missing = clients.anthropic.models.retrieve('nothing');
    await expect(missing).rejects.toBeInstanceOf(NotFoundError);
  });

  it.each(['gpt-4o', 'claude-sonnet-5'])(
    'in the middle of a stream are thrown after the streamed text (%s)',
    async (model) => {
      const stream = clients.anthropic.messages.stream({
        model,
        max_tokens: 50,
        messages: say('[[words:20]] [[stream-error:5]] x'),
      });
      let text = '';
      stream.on('text', (more) => (text += more));
      await expect(stream.finalMessage()).rejects.toThrow('The provider');
      expect(text.trim().split(/\s+/)).toHaveLength(5);
      expect(await untilSettled(gateway, clients.caller)).toMatchObject({ state: 'charged' });
    },
  );

  it.each([
    ['top_k', { top_k: 5 }],
    ['thinking', { thinking: { type: 'enabled', budget_tokens: 1024 } }],
    [
      'system.0.cache_control.ttl',
      { system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
    ],
    ['tools', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
    ['mcp_servers', { mcp_servers: [{ type: 'url', url: 'https://x.example', name: 'x' }] }],
    ['max_tokens', { max_tokens: 0 }],
    ['messages', { messages: [] }],
    ['messages', { messages: [{ role: 'user', content: [] }] }],
  ])('name the field: %s', async (field, extra) => {
    const body = { model: 'gpt-4o', max_tokens: 10, messages: say('x'), ...extra };
    const answer = await gateway.call('/v1/messages', {
      key: null,
      headers: { 'x-api-key': clients.caller.key },
      body,
    });
    expect(answer.status).toBe(400);
    expect(answer.body.details[0]?.path).toMatch(new RegExp(`^${field}`));
  });
});

it('an API key in the x-api-key header alone is accepted by Anthropic’s endpoints', async () => {
  const key = { 'x-api-key': clients.caller.key };
  const send = async (path: string, headers: Record<string, string>) =>
    (await gateway.call(path, { key: null, headers })).status;
  expect(await send('/v1/models', key)).toBe(200);
  expect(await send('/v1/models/gpt-4o', key)).toBe(200);
  expect(await send('/v1/models', { ...key, authorization: 'Bearer unknown' })).toBe(401);
});
