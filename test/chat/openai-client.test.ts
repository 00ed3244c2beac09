/** The official `openai` client, pointed at the gateway, over both upstream protocols. */
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  PermissionDeniedError,
} from 'openai';
import type { ChatCompletionChunk, ChatCompletionTool } from 'openai/resources';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { settledChatsOf } from './chat-account.ts';

const gateway = useGateway();
let client: OpenAI;
beforeAll(async () => {
  client = new OpenAI({
    apiKey: gateway.caller.key,
    baseURL: `${gateway.url}/api/v1`,
    maxRetries: 0,
  });
});
afterEach(async () => {
  await settledChatsOf(gateway, gateway.caller);
  await gateway.expectSettled();
});

const say = (content: string) => [{ role: 'user' as const, content }];
const weather: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'look_outside',
    description: 'Returns the weather.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
};
const onePixel =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

async function collect(stream: AsyncIterable<ChatCompletionChunk>): Promise<ChatCompletionChunk[]> {
  const chunks: ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const textOf = (chunks: ChatCompletionChunk[]): string =>
  chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');

describe.each([
  ['an OpenAI upstream', 'gpt-4o'],
  ['an Anthropic upstream', 'claude-sonnet-5'],
  ['an upstream with its own dialect', 'mistral-large-2512'],
  ['a model id with slashes', 'groq/openai/gpt-oss-120b'],
])('OpenAI’s client over %s', (_name, model) => {
  it('receives a whole completion with the additional fields of the gateway', async () => {
    const answer = await client.chat.completions.create({
      model,
      messages: [{ role: 'developer', content: 'Be brief.' }, ...say('hello there')],
    });
    expect(answer.object).toBe('chat.completion');
    expect(answer.choices).toHaveLength(1);
    expect(answer.choices[0]).toMatchObject({
      index: 0,
      message: { role: 'assistant', content: 'You said: hello there' },
      finish_reason: 'stop',
    });
    expect(answer.usage).toMatchObject({
      prompt_tokens: 4,
      completion_tokens: 4,
      total_tokens: 8,
      inputTokens: 4,
      outputTokens: 4,
      totalTokens: 8,
    });
    expect(answer).toMatchObject({
      content: 'You said: hello there',
      creditsConsumed: expect.any(Number),
    });
  });

  it('receives stream chunks, with no usage chunk unless the request has include_usage', async () => {
    const chunks = await collect(
      await client.chat.completions.create({ model, messages: say('a b c'), stream: true }),
    );
    expect(textOf(chunks)).toBe('You said: a b c');
    expect(chunks.every((chunk) => chunk.choices.length === 1)).toBe(true);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  it('receives usage in the last chunk if the request has include_usage', async () => {
    const chunks = await collect(
      await client.chat.completions.create({
        model,
        messages: say('a b c'),
        stream: true,
        stream_options: { include_usage: true },
      }),
    );
    const last = chunks.at(-1);
    expect(last).toMatchObject({
      object: 'chat.completion.chunk',
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
      creditsConsumed: expect.any(Number),
    });
    expect(last?.id).toBe(chunks[0]?.id);
    expect(chunks.filter((chunk) => chunk.usage)).toHaveLength(1);
  });

  it('calls a tool, and sends its result', async () => {
    const first = await client.chat.completions.create({
      model,
      messages: say('is it raining'),
      tools: [weather],
      tool_choice: 'required',
    });
    const [choice] = first.choices;
    expect(choice?.finish_reason).toBe('tool_calls');
    const [call] = choice?.message.tool_calls ?? [];
    if (call?.type !== 'function' || !choice) throw new Error('no function was called');
    expect(call.function.name).toBe('look_outside');
    expect(JSON.parse(call.function.arguments)).toEqual({ text: 'is it raining' });

    const second = await client.chat.completions.create({
      model,
      messages: [
        ...say('is it raining'),
        choice.message,
        { role: 'tool', tool_call_id: call.id, content: 'it pours' },
      ],
      tools: [weather],
    });
    expect(second.choices[0]?.message.content).toBe('The tool said: it pours');
  });

  it('receives the arguments of a tool call in several chunks', async () => {
    const chunks = await collect(
      await client.chat.completions.create({
        model,
        messages: say('look'),
        tools: [weather],
        tool_choice: { type: 'function', function: { name: 'look_outside' } },
        stream: true,
      }),
    );
    const pieces = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    expect(pieces[0]).toMatchObject({ index: 0, function: { name: 'look_outside' } });
    expect(pieces[0]?.id).toMatch(/./);
    const json = pieces.map((piece) => piece.function?.arguments ?? '').join('');
    expect(JSON.parse(json)).toEqual({ text: 'look' });
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls');
  });

  it('receives finish reason `length` when max_tokens ends the output, and is charged exactly that', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const answer = await client
      .withOptions({ apiKey: caller.key })
      .chat.completions.create({ model, messages: say('[[words:50]] go'), max_tokens: 7 });
    expect(answer.choices[0]?.finish_reason).toBe('length');
    expect(answer.usage?.completion_tokens).toBe(7);
    const [row] = await settledChatsOf(gateway, caller);
    expect(row).toMatchObject({ state: 'charged', output_tokens: 7, counted_by: 'provider' });
    expect(answer).toMatchObject({ creditsConsumed: row?.charged ? row.charged / 1e6 : null });
  });
});

describe('images in a chat', () => {
  it.each(['gpt-4o', 'claude-sonnet-5'])('are passed to %s', async (model) => {
    const answer = await client.chat.completions.create({
      model,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'what is this' },
            { type: 'image_url', image_url: { url: onePixel } },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } },
          ],
        },
      ],
    });
    expect(answer.choices[0]?.message.content).toContain('I see 2 image(s).');
  });

  it('are translated for an Anthropic upstream', async () => {
    await client.chat.completions.create({
      model: 'claude-sonnet-5',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'translated picture' },
            { type: 'image_url', image_url: { url: onePixel } },
          ],
        },
      ],
    });
    const [witness] = await gateway.sandbox.chatRequests('translated picture');
    expect(witness?.body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'translated picture' },
          {
            type: 'image',
            source: {
              type: 'base64',
              media_type: 'image/png',
              data: onePixel.replace('data:image/png;base64,', ''),
            },
          },
        ],
      },
    ]);
  });

  it.each([
    ['http://example.com/a.png', 'plain http'],
    ['https://127.0.0.1/a.png', 'a private address'],
    ['https://[::ffff:169.254.169.254]/', 'a translated private address'],
    ['file:///etc/passwd', 'a file'],
    ['data:text/html;base64,PGI+', 'data that is no picture'],
  ])('from %s (%s) are refused before the provider call', async (url) => {
    const refused = await client.chat.completions
      .create({
        model: 'gpt-4o',
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
      })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(BadRequestError);
    expect(refused).toMatchObject({ status: 400, code: 'INVALID_INPUT_URL' });
  });
});

describe('the request to the upstream', () => {
  it('contains the reserved token limit, the upstream’s model id, and the caller’s fields', async () => {
    await client.chat.completions.create({
      model: 'gpt-4o',
      messages: [{ role: 'developer', content: 'x' }, ...say('witness of fields')],
      temperature: 0.5,
      response_format: { type: 'json_object' },
      logit_bias: { '50256': -100 },
      reasoning_effort: 'low',
      stop: ['END'],
      n: 2,
      max_tokens: 33,
      service_tier: 'auto',
    });
    const [witness] = await gateway.sandbox.chatRequests('witness of fields');
    expect(witness?.body).toEqual({
      model: 'gpt-4o',
      messages: [{ role: 'system', content: 'x' }, ...say('witness of fields')],
      temperature: 0.5,
      response_format: { type: 'json_object' },
      logit_bias: { '50256': -100 },
      reasoning_effort: 'low',
      stop: ['END'],
      n: 2,
      max_completion_tokens: 33,
    });
  });

  it('requests usage in streams, by the provider’s field', async () => {
    for (const model of ['gpt-4o', 'mistral-large-2512']) {
      await collect(
        await client.chat.completions.create({
          model,
          messages: say('witness of dialects'),
          seed: 5,
          stream: true,
        }),
      );
    }
    const [openai, mistral] = await gateway.sandbox.chatRequests('witness of dialects');
    expect(openai?.body).toMatchObject({
      stream_options: { include_usage: true },
      max_completion_tokens: 16_384,
      seed: 5,
    });
    expect(mistral?.body).toMatchObject({ max_tokens: expect.any(Number), random_seed: 5 });
    expect(mistral?.body).not.toHaveProperty('stream_options');
  });

  it('is translated for Anthropic; an unsupported field is refused by its name', async () => {
    await client.chat.completions.create({
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
    const [witness] = await gateway.sandbox.chatRequests('witness of translation');
    expect(witness?.body).toEqual({
      model: 'claude-sonnet-5',
      max_tokens: 99,
      system: 'one\n\ntwo',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'witness of translation' }] }],
      stop_sequences: ['END'],
      metadata: { user_id: 'u1' },
      output_config: {
        effort: 'high',
      },
      thinking: { type: 'adaptive', display: 'summarized' },
    });

    const refused = await client.chat.completions
      .create({ model: 'claude-sonnet-5', messages: say('x'), logit_bias: { '1': 5 } })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({
      status: 400,
      code: 'UNSUPPORTED_PARAMETER',
      param: 'logit_bias',
    });
  });
});

describe('unknown fields', () => {
  it('are dropped, and reach no provider', async () => {
    const unknown = { plugins: [{ id: 'web' }], provider: { order: ['x'] }, transforms: [] };
    const message = { role: 'user' as const, content: 'witness of the unknown', cache: true };
    const answer = await client.chat.completions.create({
      model: 'gpt-4o',
      messages: [message],
      max_tokens: 9,
      ...unknown,
    });
    expect(answer.choices[0]?.message.content).toBe('You said: witness of the unknown');
    const [witness] = await gateway.sandbox.chatRequests('witness of the unknown');
    expect(witness?.body).toEqual({
      model: 'gpt-4o',
      messages: say('witness of the unknown'),
      max_completion_tokens: 9,
    });
  });

  it.each([
    ['audio', { voice: 'alloy', format: 'mp3' }],
    ['web_search_options', {}],
    ['functions', [{ name: 'x' }]],
  ])('are refused if they would change the kind of the response: %s', async (field, value) => {
    const answer = await gateway.call('/api/v1/chat/completions', {
      body: { model: 'gpt-4o', messages: say('x'), [field]: value },
    });
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'INVALID_REQUEST', param: field } },
    });
  });
});

describe('errors of chat completions', () => {
  it('have OpenAI’s shape, with the gateway’s additional fields', async () => {
    const { status, body } = await gateway.call('/api/v1/chat/completions', {
      body: { model: 'gpt-4o', messages: say('x'), temperature: 9 },
    });
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
    const { body: poor } = await gateway.call('/api/v1/chat/completions', {
      key: (await gateway.newCaller({ credits: 0 })).key,
      body: { model: 'gpt-4o', messages: say('x') },
    });
    expect(poor).toMatchObject({
      error: { type: 'insufficient_quota', code: 'insufficient_quota', param: null },
      required: expect.any(Number),
    });
    const unauthorized = await gateway.call('/api/v1/chat/completions', { key: null, body: {} });
    expect(unauthorized).toMatchObject({
      status: 401,
      body: { error: { type: 'authentication_error', code: 'Unauthorized' } },
    });
  });

  it('have messages that OpenAI’s client shows', async () => {
    await expect(
      client.chat.completions.create({ model: 'gpt-4oo', messages: say('x') }),
    ).rejects.toThrow('400 model "gpt-4oo" does not exist here; did you mean gpt-4o');
  });

  const failing = (marker: string, model = 'gpt-4o') =>
    client.chat.completions
      .create({ model, messages: say(`${marker} please`) })
      .catch((error: unknown) => error);

  it.each([
    ['[[fail:400;message=too long]]', 400, 'PROVIDER_REJECTED_INPUT'],
    ['[[fail:401]]', 500, 'PROVIDER_ERROR'],
    ['[[fail:404]]', 500, 'PROVIDER_ERROR'],
    ['[[fail:429;retry-after=7]]', 503, 'SERVICE_UNAVAILABLE'],
    ['[[fail:500]]', 500, 'PROVIDER_ERROR'],
    ['[[reset-before-accept]]', 500, 'PROVIDER_ERROR'],
    ['[[malformed-submit]]', 500, 'PROVIDER_ERROR'],
  ])(
    'for %s have status %i and code %s on both protocols, without a charge',
    async (marker, status, code) => {
      for (const model of ['gpt-4o', 'claude-sonnet-5']) {
        const caller = await gateway.newCaller({ credits: 100 });
        const error = await client
          .withOptions({ apiKey: caller.key })
          .chat.completions.create({ model, messages: say(`${marker} please`) })
          .catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(APIError);
        expect(error).toMatchObject({ status, code });
        const [row] = await settledChatsOf(gateway, caller);
        expect(row).toMatchObject({ state: 'released', charged: 0 });
      }
    },
  );

  it('contain the provider’s Retry-After, and its message about the input', async () => {
    const busy = await failing('[[fail:429;retry-after=7]]');
    expect((busy as InstanceType<typeof APIError>).headers?.get('retry-after')).toBe('7');
    const answer = await gateway.call('/api/v1/chat/completions', {
      body: {
        model: 'gpt-4o',
        messages: say('[[fail:400;message=bad for org-abcdef123 see https://x.example]]'),
      },
    });
    expect(answer.body.message).toBe('The provider did not accept the input: bad for … see …');
  });

  it('become the error classes of OpenAI’s client', async () => {
    const wrongKey = new OpenAI({
      apiKey: 'unknown',
      baseURL: `${gateway.url}/api/v1`,
      maxRetries: 0,
    });
    await expect(
      wrongKey.chat.completions.create({ model: 'gpt-4o', messages: say('x') }),
    ).rejects.toBeInstanceOf(AuthenticationError);
    await expect(
      client.chat.completions.create({ model: 'gpt-4oo', messages: say('x') }),
    ).rejects.toMatchObject({ status: 400, code: 'UNKNOWN_MODEL', param: 'model' });
    const limited = await gateway.newCaller({ credits: 100, scopes: ['models:read'] });
    await expect(
      client
        .withOptions({ apiKey: limited.key })
        .chat.completions.create({ model: 'gpt-4o', messages: say('x') }),
    ).rejects.toBeInstanceOf(PermissionDeniedError);
  });

  it('in the middle of a stream are thrown by the client after the streamed text', async () => {
    for (const [marker, model] of [
      ['[[words:20]] [[stream-error:5]]', 'gpt-4o'],
      ['[[words:20]] [[stream-cut:5]]', 'gpt-4o'],
      ['[[words:20]] [[stream-error:5]]', 'claude-sonnet-5'],
      ['[[words:20]] [[stream-cut:5]]', 'claude-sonnet-5'],
    ] as const) {
      const stream = await client.chat.completions.create({
        model,
        messages: say(marker),
        stream: true,
      });
      const chunks: ChatCompletionChunk[] = [];
      const read = async (): Promise<void> => {
        for await (const chunk of stream) chunks.push(chunk);
      };
      await expect(read()).rejects.toBeInstanceOf(APIError);
      expect(textOf(chunks).trim().split(/\s+/), `${marker} ${model}`).toHaveLength(5);
    }
  });
});
