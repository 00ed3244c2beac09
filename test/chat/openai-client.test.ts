/** The official `openai` client, pointed at the gateway, over both upstream protocols. */
import { APIError } from 'openai';
import type { ChatCompletionChunk, ChatCompletionTool } from 'openai/resources';
import { describe, expect, it } from 'vitest';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';
import { untilSettled, untilAllSettled } from './chat-account.ts';
import { makeClients, say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const completions = () => clients.openai.chat.completions;
const sent = (match: string) => gateway.sandbox.chatRequests(match);

const weather: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'look_outside',
    description: 'Returns the weather.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
};

/** Reads a stream into a list, which keeps the chunks before an error. */
async function collect(
  stream: AsyncIterable<ChatCompletionChunk>,
  chunks: ChatCompletionChunk[] = [],
): Promise<ChatCompletionChunk[]> {
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const joinText = (chunks: ChatCompletionChunk[]): string =>
  chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');

describe.each([
  ['an OpenAI upstream', 'gpt-4o'],
  ['an Anthropic upstream', 'claude-sonnet-5'],
  ['an upstream with its own dialect', 'mistral-large-2512'],
])('OpenAI’s client over %s', (_name, model) => {
  it('receives a whole completion with the additional fields of the gateway', async () => {
    const messages = [{ role: 'developer' as const, content: 'Be brief.' }, ...say('hello there')];
    const answer = await completions().create({ model, messages });
    expect(answer).toMatchObject({
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'You said: hello there' },
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 4,
        completion_tokens: 4,
        total_tokens: 8,
        inputTokens: 4,
        outputTokens: 4,
        totalTokens: 8,
      },
      content: 'You said: hello there',
      creditsConsumed: expect.any(Number),
    });
  });

  it.each([false, true])(
    'receives chunks, the last with usage only if it is requested (include_usage: %s)',
    async (include_usage) => {
      const request = { model, messages: say('a b c'), stream_options: { include_usage } };
      const chunks = await collect(await completions().create({ ...request, stream: true }));
      expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
      const [usage] = include_usage ? chunks.splice(-1) : [];
      expect(joinText(chunks)).toBe('You said: a b c');
      expect(chunks.every((chunk) => chunk.choices.length === 1 && !chunk.usage)).toBe(true);
      expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
      if (!include_usage) return;
      expect(usage).toMatchObject({
        object: 'chat.completion.chunk',
        choices: [],
        usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
        creditsConsumed: expect.any(Number),
      });
    },
  );

  it.each([false, true])('calls the requested tool (streamed: %s)', async (stream) => {
    const tool_choice = { type: 'function' as const, function: { name: 'look_outside' } };
    const request = { model, messages: say('look'), tools: [weather], tool_choice };
    const id = expect.stringMatching(/./);
    const call = { id, function: { name: 'look_outside', arguments: '{"text":"look"}' } };
    expect((await clients.complete(request, stream)).choices).toMatchObject([
      { finish_reason: 'tool_calls', message: { tool_calls: [call] } },
    ]);
  });

  it('receives finish reason `length` when max_tokens ends the output, and is charged exactly that', async () => {
    const request = { model, messages: say('[[words:50]] go'), max_tokens: 7 };
    const answer = await completions().create(request);
    expect(answer).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 7 },
    });
    const row = await untilSettled(gateway, clients.caller);
    expect(row).toMatchObject({ state: 'charged', output_tokens: 7, counted_by: 'provider' });
    expect(answer).toMatchObject({ creditsConsumed: row.charged / 1e6 });
  });
});

describe('the request to the upstream', () => {
  it('contains the reserved token limit, the upstream’s model id, and the caller’s fields', async () => {
    const fields = {
      model: 'gpt-4o',
      temperature: 0.5,
      response_format: { type: 'json_object' as const },
      logit_bias: { '50256': -100 },
      stop: ['END'],
      n: 2,
    };
    await completions().create({
      ...fields,
      messages: [{ role: 'developer', content: 'x' }, ...say('witness of fields')],
      max_tokens: 33,
      service_tier: 'auto',
    });
    expect(await sent('witness of fields')).toEqual([
      {
        ...fields,
        messages: [{ role: 'system', content: 'x' }, ...say('witness of fields')],
        max_completion_tokens: 33,
      },
    ]);
  });

  it('sends the token limit as max_tokens with a prediction, as OpenAI requires', async () => {
    const prediction = { type: 'content' as const, content: 'const a = 1;' };
    const messages = say('witness of predictions');
    await completions().create({ model: 'gpt-4o', messages, prediction });
    const [request] = await sent('witness of predictions');
    expect(request).toMatchObject({ prediction, max_tokens: 16_384 });
    expect(request).not.toHaveProperty('max_completion_tokens');
  });

  it('requests usage in streams, by the provider’s field', async () => {
    const request = { messages: say('witness of dialects'), seed: 5, stream: true as const };
    for (const model of ['gpt-4o', 'mistral-large-2512'])
      await collect(await completions().create({ ...request, model }));
    const [openai, mistral] = await sent('witness of dialects');
    expect(openai).toMatchObject({
      stream_options: { include_usage: true },
      max_completion_tokens: 16_384,
      seed: 5,
    });
    expect(mistral).toMatchObject({ max_tokens: expect.any(Number), random_seed: 5 });
    expect(mistral).not.toHaveProperty('stream_options');
  });

  it('is translated for Anthropic; an unsupported field is rejected by its name', async () => {
    await completions().create({
      model: 'claude-sonnet-5',
      messages: [
        { role: 'system', content: 'one' },
        { role: 'developer', content: 'two' },
        ...say('witness of translation'),
      ],
      stop: 'END',
      user: 'u1',
      reasoning_effort: 'high',
      frequency_penalty: 0,
      max_tokens: 99,
    });
    expect(await sent('witness of translation')).toEqual([
      {
        model: 'claude-sonnet-5',
        max_tokens: 99,
        system: 'one\n\ntwo',
        messages: [{ role: 'user', content: [{ type: 'text', text: 'witness of translation' }] }],
        stop_sequences: ['END'],
        metadata: { user_id: 'u1' },
        output_config: { effort: 'high' },
        thinking: { type: 'adaptive', display: 'summarized' },
      },
    ]);
    const biased = { model: 'claude-sonnet-5', messages: say('x'), logit_bias: { '1': 5 } };
    await expect(completions().create(biased)).rejects.toMatchObject({
      status: 400,
      code: 'UNSUPPORTED_PARAMETER',
      param: 'logit_bias',
    });
  });
});

describe('errors of chat completions', () => {
  const request = { model: 'gpt-4o', messages: say('x') };

  it('have OpenAI’s shape, with the gateway’s additional fields', async () => {
    const path = '/api/v1/chat/completions';
    const { status, body } = await gateway.call(path, { body: { ...request, temperature: 9 } });
    const message = expect.stringContaining('temperature: ');
    expect([status, body]).toEqual([
      400,
      {
        error: {
          message,
          type: 'invalid_request_error',
          code: 'INVALID_REQUEST',
          param: 'temperature',
        },
        message,
        requestId: expect.stringMatching(/^req_/),
        details: [{ path: 'temperature', message: expect.any(String) }],
      },
    ]);
    const { key } = await gateway.newCaller({ credits: 0 });
    expect(await gateway.call(path, { key, body: request })).toMatchObject({
      status: 402,
      body: {
        error: { type: 'insufficient_quota', code: 'insufficient_quota', param: null },
        required: expect.any(Number),
      },
    });
    expect(await gateway.call(path, { key: null, body: {} })).toMatchObject({
      status: 401,
      body: { error: { type: 'authentication_error', code: 'invalid_api_key' } },
    });
  });

  it.each([
    ['[[fail:400;message=too long]]', 400, 'PROVIDER_REJECTED_INPUT'],
    ['[[fail:401]]', 500, 'PROVIDER_ERROR'],
    ['[[fail:429;retry-after=7]]', 503, 'SERVICE_UNAVAILABLE'],
    ['[[fail:500]]', 500, 'PROVIDER_ERROR'],
    ['[[reset-before-accept]]', 500, 'PROVIDER_ERROR'],
    ['[[malformed-submit]]', 500, 'PROVIDER_ERROR'],
  ])(
    'for %s have status %i and code %s on both protocols, without a charge',
    async (marker, status, code) => {
      for (const model of ['gpt-4o', 'claude-sonnet-5']) {
        const { openai, caller } = makeClients(gateway, await gateway.newCaller({ credits: 100 }));
        const failed = openai.chat.completions.create({ model, messages: say(`${marker} please`) });
        await expect(failed).rejects.toBeInstanceOf(APIError);
        await expect(failed).rejects.toMatchObject({ status, code });
        const row = await untilSettled(gateway, caller);
        expect(row).toMatchObject({ state: 'released', charged: 0 });
      }
    },
  );

  it('contain the provider’s Retry-After, and its message about the input', async () => {
    const fail = (marker: string) =>
      catchFailure<APIError>(clients.complete({ ...request, messages: say(marker) }), APIError);
    const { headers } = await fail('[[fail:429;retry-after=7]]');
    expect(headers?.get('retry-after')).toBe('7');
    // Of 300 characters, the last are the start of a key.
    const [filler, key] = ['x'.repeat(249), 'sk-abcdefgh'];
    const reason = `bad for org-abcdef123 see https://x.example ${filler} ${key}`;
    const { message } = await fail(`[[fail:400;message=${reason}]]`);
    expect(message).toBe(`400 The provider rejected the input: bad for … see … ${filler} …`);
  });

  it.each(['fail:500x1', 'fail:503x2', 'fail:429x1;retry-after=1', 'reset-before-accept:x1'])(
    'make OpenAI’s client retry, and only the successful call is charged (%s)',
    async (fault) => {
      // The sandbox counts the faults of each text separately.
      const messages = say(`[[${fault}]] question ${crypto.randomUUID()}`);
      const { openai, caller } = makeClients(gateway, await gateway.newCaller({ credits: 100 }));
      const retrying = openai.withOptions({ maxRetries: 2 }).chat.completions;
      const answer = await retrying.create({ model: 'gpt-4o', messages });
      expect(answer.choices[0]?.message.content).toContain('You said: question');
      const rows = await untilAllSettled(gateway, caller);
      expect(rows.length).toBeGreaterThan(1);
      expect(rows.slice(0, -1).every(({ state }) => state === 'released')).toBe(true);
      expect(rows.at(-1)).toMatchObject({ state: 'charged', counted_by: 'provider' });
    },
  );

  it.each([
    ['stream-error:5', 'gpt-4o'],
    ['stream-error:5', 'claude-sonnet-5'],
    ['stream-cut:5', 'claude-sonnet-5'],
  ])(
    'in the middle of a stream are thrown after the streamed text (%s, %s)',
    async (fault, model) => {
      const messages = say(`[[words:20]] [[${fault}]]`);
      const stream = await completions().create({ model, messages, stream: true });
      const chunks: ChatCompletionChunk[] = [];
      await expect(collect(stream, chunks)).rejects.toBeInstanceOf(APIError);
      expect(joinText(chunks).trim().split(/\s+/)).toHaveLength(5);
    },
  );
});
