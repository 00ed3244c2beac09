/**
 * Responses of providers that differ from their documentation: fields of other types, early usage,
 * choices one after the other. The charge is that of the delivered output, and no chat stays open.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { untilSettled } from './chat-account.ts';
import { say } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

/** Sends the response of the provider to the next request. */
let respond: (response: ServerResponse) => unknown;
const server = await startHttpServer((request, response) => {
  request.resume().once('end', () => respond(response));
});
/** Accepts connections, and never completes the TLS handshake on them. */
const silentServer = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
await once(silentServer, 'listening');
const { port: silentPort } = silentServer.address() as { port: number };
afterAll(() => {
  server.close();
  silentServer.close();
});
const gateway = useGateway({
  settled: 'last',
  env: {
    // Longer than the pauses of a busy machine.
    CHAT_ANSWER_TIMEOUT_MS: '10000',
    DEEPSEEK_API_KEY: 'key',
    DEEPSEEK_BASE_URL: `https://127.0.0.1:${silentPort}`,
    MISTRAL_API_KEY: 'key',
    MISTRAL_BASE_URL: server.url,
    MINIMAX_API_KEY: 'key',
    MINIMAX_BASE_URL: server.url,
    ANTHROPIC_API_KEY: 'key',
    ANTHROPIC_BASE_URL: server.url,
  },
});

/** Events of a stream; the connection breaks after them if `breaks` is true. */
function stream(events: readonly unknown[], breaks = false) {
  respond = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    response.write(text, () => {
      if (breaks) setTimeout(() => response.socket?.destroy(), 50);
      else response.end();
    });
  };
}

function whole(answer: object) {
  respond = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ object: 'chat.completion', created: 1, ...answer }));
  };
}

async function send(body: object, path = '/chat/completions') {
  const caller = await gateway.newCaller({ credits: 100 });
  const request = { model: 'mistral-medium-latest', messages: say('hello'), ...body };
  const response = await postChat(gateway, caller, { path, body: request });
  return { caller, status: response.status, text: await response.text() };
}

const delta = (fields: object, index = 0, finish: string | null = null) => ({
  choices: [{ index, delta: fields, finish_reason: finish }],
});

/** Sends a streamed chat, and returns its row. */
async function settledStream(body: object = {}) {
  const { caller } = await send({ stream: true, ...body });
  return untilSettled(gateway, caller);
}
const x40 = 'x'.repeat(40);

describe('a stream of OpenAI’s protocol', () => {
  it('whose usage precedes its output is charged for the delivered output', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 };
    stream([{ ...delta({ content: '' }), usage }, delta({ content: 'x'.repeat(400) })], true);
    expect(await settledStream()).toMatchObject({
      state: 'charged',
      input_tokens: 7,
      output_tokens: 100,
      counted_by: 'gateway',
    });
  });

  it('that breaks is charged for reasoning, text, refusals and tool calls', async () => {
    const named = { name: 'n'.repeat(8), arguments: 'a'.repeat(32) };
    const texts = ['reasoning_content', 'reasoning', 'content', 'refusal'];
    const call = delta({ tool_calls: [{ index: 0, id: 'c', function: named }] });
    // Some providers send the same reasoning in both fields.
    const same = delta({ reasoning_content: x40, reasoning: x40 });
    stream([...texts.map((name) => delta({ [name]: x40 })), same, call], true);
    expect(await settledStream()).toMatchObject({ state: 'charged', output_tokens: 240 / 4 });
  });

  it('that breaks before its second choice has begun ends with an error', async () => {
    stream([delta({ content: 'one' }), delta({}, 0, 'stop')], true);
    const { caller, text } = await send({ stream: true, n: 2 });
    expect(text).toContain('PROVIDER_ERROR');
    expect(text).not.toContain('[DONE]');
    await untilSettled(gateway, caller);
  });
});

describe('a stream of Anthropic’s protocol', () => {
  const model = 'MiniMax-M3';
  const start = { type: 'message_start', message: { id: 'm', model, usage: { input_tokens: 5 } } };
  const text = (value: unknown) => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: value },
  });
  const end = (usage: unknown) => [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
    { type: 'message_stop' },
  ];

  it.each([
    ['0 at its start', { input_tokens: 0 }, { input_tokens: 900 }],
    ['nothing at its start', {}, { input_tokens: 900 }],
    [
      'less at its end, without its cache',
      { input_tokens: 100, cache_read_input_tokens: 800 },
      { input_tokens: 100 },
    ],
  ])('that reports %s is charged for the larger input', async (_name, first, last) => {
    const message = { id: 'm', model, usage: first };
    stream([
      { type: 'message_start', message },
      text('hello'),
      ...end({ ...last, output_tokens: 9 }),
    ]);
    expect(await settledStream({ model, messages: say('x'.repeat(2000)) })).toMatchObject({
      input_tokens: 900,
      output_tokens: 9,
      counted_by: 'provider',
    });
  });

  it('that reports cache writes that were not requested is charged for plain input', async () => {
    const usage = { input_tokens: 1, cache_creation_input_tokens: 8 };
    const message = { id: 'm', model, usage };
    stream([{ type: 'message_start', message }, text('hello'), ...end({ output_tokens: 9 })]);
    expect(await settledStream({ model: 'claude-sonnet-5' })).toMatchObject({
      input_tokens: 9,
      charged: 9 * 200 + 9 * 1000,
    });
  });

  it('that has only reported an input of 0 when it breaks is charged for the estimated input', async () => {
    const message = { id: 'm', model, usage: { input_tokens: 0, output_tokens: 0 } };
    stream([{ type: 'message_start', message }, text('hello')], true);
    expect(await settledStream({ model })).toMatchObject({
      // Two tokens of text, and four of the message.
      input_tokens: 6,
      output_tokens: 2,
      counted_by: 'gateway',
    });
  });

  it('that breaks is charged for thoughts, text and tool calls', async () => {
    const content_block = { type: 'tool_use', id: 'c', name: 'n'.repeat(8) };
    const input = { type: 'input_json_delta', partial_json: 'a'.repeat(32) };
    stream(
      [
        start,
        { ...text(''), delta: { type: 'thinking_delta', thinking: x40 } },
        text(x40),
        { type: 'content_block_start', index: 1, content_block },
        { type: 'content_block_delta', index: 1, delta: input },
      ],
      true,
    );
    expect(await settledStream({ model })).toMatchObject({
      state: 'charged',
      input_tokens: 5,
      output_tokens: 120 / 4,
    });
  });

  it('with two signed thoughts returns each with its own text', async () => {
    const thoughts = ['one', 'two'].flatMap((thinking, index) => [
      { ...text(''), index, delta: { type: 'thinking_delta', thinking } },
      { ...text(''), index, delta: { type: 'signature_delta', signature: `sig_${thinking}` } },
    ]);
    stream([start, ...thoughts, ...end({ output_tokens: 9 })]);
    const { caller, text: received } = await send({ stream: true, model });
    for (const thought of ['one', 'two'])
      expect(received).toContain(`"text":"${thought}","signature":"sig_${thought}"`);
    await untilSettled(gateway, caller);
  });

  it.each([5, null, {}])('with a text of %o is charged for its other texts', async (value) => {
    stream([start, text('hello'), text(value)], true);
    expect(await settledStream({ model })).toMatchObject({
      state: 'charged',
      input_tokens: 5,
      output_tokens: 2,
    });
  });

  it.each([
    ['message', { type: 'message_start', message: null }],
    ['usage', { type: 'message_delta', delta: null, usage: null }],
    ['content_block', { type: 'content_block_start', index: 0, content_block: null }],
    ['delta', { type: 'content_block_delta', index: 0, delta: null }],
  ])('with an event whose %s is null is complete', async (_field, event) => {
    stream([event, text('hello'), ...end({ output_tokens: 9 })]);
    const { caller, text: received } = await send({ stream: true, model });
    expect(received).toContain('[DONE]');
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'charged' });
  });
});

it.each([false, true])(
  'a structured answer that the token limit cuts off has finish reason `length` (streamed: %s)',
  async (isStream) => {
    const content_block = { type: 'tool_use', id: 't', name: 'structured_answer', input: {} };
    const cut = { stop_reason: 'max_tokens' };
    const [model, usage] = ['claude-sonnet-5', { input_tokens: 5, output_tokens: 9 }];
    if (isStream) {
      const start = { type: 'content_block_start', index: 0, content_block };
      stream([start, { type: 'message_delta', delta: cut, usage }, { type: 'message_stop' }]);
    } else whole({ id: 'm', model, content: [content_block], usage, ...cut });
    const response_format = { type: 'json_object' };
    const { caller, text } = await send({ model, response_format, stream: isStream });
    expect(text).toContain('"finish_reason":"length"');
    await untilSettled(gateway, caller);
  },
);

it('a tool call without arguments, with more extra content than a caller may send, is shown without it', async () => {
  const extra_content = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`f${n}`, n]));
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '' } };
  const tool_calls = [{ ...call, extra_content }];
  whole({ choices: [{ message: { role: 'assistant', tool_calls }, finish_reason: 'tool_calls' }] });
  const { caller, text } = await send({ max_tokens: 50 }, '/messages');
  expect(text).toContain('[{"type":"tool_use","id":"c","name":"f","input":{}}]');
  await untilSettled(gateway, caller);
});

it('reasoning tokens are shown up to the output tokens', async () => {
  const message = { role: 'assistant', content: 'hello' };
  whole({
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 3,
      completion_tokens: 4,
      completion_tokens_details: { reasoning_tokens: 1e15 },
    },
  });
  const { caller, text } = await send({});
  expect(JSON.parse(text)).toMatchObject({ usage: { reasoningTokens: 4 } });
  await untilSettled(gateway, caller);
});

it('a whole response above 32 MiB ends the chat with an error, and nothing is charged', async () => {
  const message = { role: 'assistant', content: 'x'.repeat(33 * 1024 * 1024) };
  whole({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  const { caller, status, text } = await send({});
  expect(status).toBe(500);
  expect(text).toContain('PROVIDER_ERROR');
  expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
});

describe('vectors', () => {
  const vectors = [{ embedding: [1] }, { embedding: [2] }];
  const request = { model: 'mistral-embed', messages: undefined, input: ['a', 'b'] };

  it.each<[string, object, string]>([
    ['too few', { data: [{ index: 0, embedding: [1] }] }, 'released'],
    ['of no numbers', { data: [{}, { embedding: [null] }] }, 'released'],
    ['of half a number', { data: [{ embedding: 'AAA=' }, { embedding: 'AAAAAA==' }] }, 'released'],
    ['without a list', { object: 'list' }, 'released'],
    [
      'in another order',
      { data: [2, 1].map((at) => ({ index: at - 1, embedding: [at] })) },
      'gateway',
    ],
    [
      'in base64',
      { data: ['AACAPw==', 'AAAAQA=='].map((embedding) => ({ embedding })) },
      'gateway',
    ],
    ['for no tokens', { data: vectors, usage: { prompt_tokens: 0 } }, 'gateway'],
    ['for more tokens than bytes', { data: vectors, usage: { prompt_tokens: 9999 } }, 'capped'],
    ['with usage', { data: vectors, usage: { prompt_tokens: 5, total_tokens: 5 } }, 'provider'],
  ])('%s', async (_name, answer, charge) => {
    whole(answer);
    const { caller, status, text } = await send(request, '/embeddings');
    const row = await untilSettled(gateway, caller);
    if (charge === 'released') {
      expect([status, row.state]).toEqual([500, 'released']);
      return;
    }
    expect(
      JSON.parse(text).data.map(({ embedding }: { embedding: number[] }) => embedding),
    ).toEqual([[1], [2]]);
    // A report of more tokens than bytes is limited to the bytes that were sent.
    const tokens = { capped: 47, provider: 5 }[charge] ?? 2;
    const counter = charge === 'capped' ? 'provider' : charge;
    expect([row.state, row.counted_by, row.input_tokens]).toEqual(['charged', counter, tokens]);
  });
});

describe('a provider that sends no output of the model', () => {
  const comments = (head: object, text: string) => {
    respond = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', ...head });
      const timer = setInterval(() => response.write(text), 100);
      response.once('close', () => clearInterval(timer));
    };
  };
  it.each([
    ['comments', true, ': waiting\n\n'],
    ['empty events', true, `data: ${JSON.stringify(delta({ content: '' }))}\n\n`],
    ['white space', false, '\n'],
  ])('but %s forever is stopped, and nothing is charged', async (_name, isStream, text) => {
    comments(isStream ? {} : { 'content-type': 'application/json' }, text);
    const { caller, text: received } = await send({ stream: isStream });
    expect(received).toContain('DEADLINE_EXCEEDED');
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  });

  it('but comments for a while, between its output, is waited for', async () => {
    respond = async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (let count = 0; count < 12; count += 1) {
        response.write(': waiting\n\n');
        await sleep(1000);
        response.write(`data: ${JSON.stringify(delta({ content: x40 }))}\n\n`);
      }
      response.end('data: [DONE]\n\n');
    };
    expect(await settledStream()).toMatchObject({ state: 'charged', output_tokens: 120 });
  });
});

describe('a caller that left before the provider responds', () => {
  const answered = (status: number, text: string) => (response: ServerResponse) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  const complete = JSON.stringify({
    object: 'chat.completion',
    created: 1,
    choices: [{ index: 0, message: { role: 'assistant', content: x40 }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 4 },
  });
  const cut = (response: ServerResponse) => response.socket?.destroy();

  it.each<[string, boolean, (response: ServerResponse) => unknown, object]>([
    ['an error of the provider', false, answered(500, '{}'), { state: 'released' }],
    ['a busy provider', false, answered(429, '{}'), { state: 'released' }],
    ['an error of its proxy', false, answered(502, 'bad gateway'), { state: 'released' }],
    ['a broken connection', false, cut, { state: 'charged', output_tokens: 0 }],
    ['silence', false, () => {}, { state: 'charged', output_tokens: 0 }],
    ['half a response', false, answered(200, '{"id'), { state: 'charged', output_tokens: 0 }],
    ['the response', false, answered(200, complete), { input_tokens: 3, output_tokens: 4 }],
    ['silence, of a stream', true, () => {}, { state: 'charged', output_tokens: 0 }],
  ])(
    'with %s is charged for what the provider may bill',
    async (_name, isStream, act, expected) => {
      const leaving = new AbortController();
      respond = (response) => {
        leaving.abort();
        setTimeout(() => act(response), 500);
      };
      const caller = await gateway.newCaller({ credits: 100 });
      const body = { model: 'mistral-medium-latest', messages: say('x'.repeat(4000)) };
      const request = { body: { ...body, stream: isStream }, signal: leaving.signal };
      await expect(postChat(gateway, caller, request)).rejects.toThrow('aborted');
      const row = await untilSettled(gateway, caller);
      expect(row).toMatchObject(expected);
      if (row.counted_by === 'gateway') expect(row.input_tokens).toBe(1004);
      expect(row.charged > 0).toBe(row.state === 'charged');
    },
  );

  it('is charged nothing while no connection to the provider is established', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const connected = once(silentServer, 'connection');
    const leaving = new AbortController();
    const body = { model: 'deepseek-flash', messages: say('x'.repeat(4000)), stream: true };
    const posted = postChat(gateway, caller, { body, signal: leaving.signal });
    await connected;
    leaving.abort();
    await expect(posted).rejects.toThrow('aborted');
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'released', charged: 0 });
  });
});

describe('a report of usage', () => {
  const send40 = (usage: object, body: object = {}) => {
    const message = { role: 'assistant', content: x40 };
    whole({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage });
    return send({ max_tokens: 5000, ...body });
  };

  it.each<[string, object, object]>([
    [
      'reasoning that it counts only in its total',
      { prompt_tokens: 5, completion_tokens: 10, total_tokens: 3015 },
      { input_tokens: 5, output_tokens: 3010, counted_by: 'provider' },
    ],
    [
      'reasoning beyond the limit of the answer',
      { prompt_tokens: 5, completion_tokens: 10, total_tokens: 30_015 },
      { input_tokens: 5, output_tokens: 5000, counted_by: 'provider' },
    ],
    [
      'an absurd input beside a plausible output',
      { prompt_tokens: 1e15, completion_tokens: 3000 },
      { output_tokens: 3000, counted_by: 'provider' },
    ],
    [
      'an invalid input beside a plausible output',
      { prompt_tokens: -1, completion_tokens: 3000 },
      { input_tokens: 6, output_tokens: 3000, counted_by: 'gateway' },
    ],
    [
      'an invalid output beside a plausible input',
      { prompt_tokens: 7, completion_tokens: 'many' },
      { input_tokens: 7, output_tokens: 10, counted_by: 'gateway' },
    ],
  ])('with %s is limited number by number', async (_name, usage, expected) => {
    const { caller } = await send40(usage);
    expect(await untilSettled(gateway, caller)).toMatchObject(expected);
  });

  it('before the last output counts if it is more than what was delivered', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 3000 };
    stream([{ ...delta({ content: x40 }), usage }, delta({ content: x40 })], true);
    expect(await settledStream()).toMatchObject({ input_tokens: 7, output_tokens: 3000 });
  });
});
