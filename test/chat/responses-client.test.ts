/** The Responses API of the official `openai` client, over both upstream protocols. */
import { APIError, NotFoundError } from 'openai';
import type {
  FunctionTool,
  ResponseCreateParamsNonStreaming,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { readChats, untilSettled } from './chat-account.ts';
import { onePixelUrl, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const responses = () => clients.openai.responses;

const weather: FunctionTool = {
  type: 'function',
  name: 'look_outside',
  description: 'Reports the weather.',
  parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  strict: false,
};
async function readEvents(
  request: ResponseCreateParamsNonStreaming,
): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  const stream = await responses().create({ ...request, stream: true });
  for await (const event of stream) events.push(event);
  return events;
}

/** Returns the types of events; equal consecutive types are listed once. */
const listTypes = (events: ResponseStreamEvent[]): string[] =>
  events.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]);

describe.each([
  ['an OpenAI upstream', 'gpt-4o', 4 * 250 + 4 * 1000],
  ['an Anthropic upstream', 'claude-sonnet-5', 4 * 200 + 4 * 1000],
])('the Responses API over %s', (_name, model, charged) => {
  it('returns a whole response and charges the price that it states', async () => {
    const request = { model, instructions: 'Be brief.', input: 'hello there', store: false };
    const response = await responses().create(request);
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      model,
      output_text: 'You said: hello there',
      output: [{ type: 'message', role: 'assistant', status: 'completed' }],
      usage: {
        input_tokens: 4,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 4,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 8,
      },
    });
    const row = await untilSettled(gateway, clients.caller);
    expect(row).toMatchObject({ state: 'charged', charged, input_tokens: 4, output_tokens: 4 });
    expect(response).toMatchObject({ creditsConsumed: charged / 1e6 });
  });

  it('streams the events in the documented order', async () => {
    const events = await readEvents({ model, input: 'a b c' });
    expect(listTypes(events)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(events.map((event) => event.sequence_number)).toEqual([...events.keys()]);
    expect(events.filter(({ type }) => type === 'response.output_text.delta')).toHaveLength(5);
    const done = events.find(({ type }) => type === 'response.output_text.done');
    expect(done).toMatchObject({ text: 'You said: a b c' });
    const row = await untilSettled(gateway, clients.caller);
    expect(events.at(-1)).toMatchObject({
      response: {
        status: 'completed',
        usage: { input_tokens: 3, output_tokens: 5, total_tokens: 8 },
        creditsConsumed: row.charged / 1e6,
      },
    });
  });

  it('streams a function call in the documented order', async () => {
    const choice = { type: 'function' as const, name: 'look_outside' };
    const events = await readEvents({ model, input: 'x', tools: [weather], tool_choice: choice });
    expect(listTypes(events)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ]);
  });

  it('returns status incomplete when max_output_tokens ends the output, whole and streamed', async () => {
    const request = { model, input: '[[words:50]] go', max_output_tokens: 7 };
    const incomplete = {
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      usage: { output_tokens: 7 },
    };
    expect(await responses().create(request)).toMatchObject(incomplete);
    expect((await readEvents(request)).at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: incomplete,
    });
  });

  it('makes the client throw when a stream fails, after the text before it', async () => {
    let text = '';
    const stream = responses().stream({ model, input: '[[words:20]] [[stream-error:5]] x' });
    stream.on('response.output_text.delta', ({ delta }) => (text += delta));
    await expect(stream.finalResponse()).rejects.toBeInstanceOf(APIError);
    expect(text.trim().split(/\s+/)).toHaveLength(5);
    expect(await untilSettled(gateway, clients.caller)).toMatchObject({ state: 'charged' });
  });
});

it('sends every field to the provider under its name in chat completions', async () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
  const response = await responses().create({
    model: 'gpt-5-mini',
    instructions: 'Be brief.',
    input: [
      { role: 'developer', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'fields of responses' },
          { type: 'input_image', image_url: onePixelUrl, detail: 'auto' },
        ],
      },
      { type: 'function_call', call_id: 'c1', name: 'look_outside', arguments: '{}' },
      { type: 'function_call', call_id: 'c2', name: 'look_outside', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'rain' },
      {
        type: 'function_call_output',
        call_id: 'c2',
        output: [{ type: 'input_text', text: 'fog' }],
      },
    ],
    temperature: 0.5,
    top_p: 0.9,
    max_output_tokens: 33,
    reasoning: { effort: 'low', summary: 'auto' },
    include: ['reasoning.encrypted_content'],
    text: { format: { type: 'json_schema', name: 'a', schema, strict: true }, verbosity: 'low' },
    tools: [weather],
    tool_choice: 'required',
    parallel_tool_calls: false,
    metadata: { team: 'harbour' },
    truncation: 'disabled',
  });
  const { parameters, name, description } = weather;
  const call = { type: 'function', function: { name, arguments: '{}' } };
  const [witness] = await gateway.sandbox.chatRequests('fields of responses');
  expect(witness).toEqual({
    model: 'gpt-5-mini',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'fields of responses' },
          { type: 'image_url', image_url: { url: onePixelUrl, detail: 'auto' } },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c1', ...call },
          { id: 'c2', ...call },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'rain' },
      { role: 'tool', tool_call_id: 'c2', content: 'fog' },
    ],
    temperature: 0.5,
    top_p: 0.9,
    reasoning_effort: 'low',
    verbosity: 'low',
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema, strict: true } },
    tools: [{ type: 'function', function: { name, description, parameters, strict: false } }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    max_completion_tokens: 33,
  });
  expect(response).toMatchObject({
    temperature: 0.5,
    max_output_tokens: 33,
    metadata: { team: 'harbour' },
    reasoning: { effort: 'low' },
    text: { format: { type: 'json_schema', name: 'a', schema, strict: true }, verbosity: 'low' },
    tools: [weather],
    parallel_tool_calls: false,
  });
});

describe('errors of the Responses API', () => {
  const user = { role: 'user', content: 'x' };
  const image = { type: 'input_image', file_id: 'file_1' };
  const byHttp = { ...image, file_id: null, image_url: 'http://x.example/a' };
  const model = 'claude-sonnet-5';
  const structured = { text: { format: { type: 'json_object' } }, reasoning: { effort: 'low' } };
  it.each<[param: string, fields: object, sentence: string, code?: string]>([
    ['previous_response_id', { previous_response_id: 'resp_1' }, 'send the whole conversation'],
    ['conversation', { conversation: 'conv_1' }, 'send the whole conversation'],
    ['store', { background: true, store: false }, 'must not be false with background: true'],
    ['tools.0.type', { tools: [{ type: 'file_search' }] }, 'must be one of function, custom'],
    ['input.0.type', { input: [{ type: 'item_reference', id: 'msg_1' }] }, 'item_reference is not'],
    [
      'input.1.type',
      { input: [user, { type: 'item_reference', id: 'msg_1' }, user] },
      'send the whole conversation',
    ],
    ['input', { input: [{ type: 'item_reference', id: 'rs_1' }] }, 'at least one message'],
    ['input.0.type', { input: [{ type: 'web_search_call' }] }, 'must be one of message'],
    ['input.0.role', { input: [{ ...user, role: 'tool' }] }, 'must be one of user, system'],
    [
      'input.0.content.0.file_id',
      { input: [{ ...user, content: [image] }] },
      'must be the id of an uploaded file',
    ],
    ['input.0.content', { input: [{ ...user, content: 5 }] }, 'must be a string'],
    ['text.format.type', { text: { format: { type: 'xml' } } }, 'must be one of text'],
    ['tool_choice', { tool_choice: { type: 'web_search' } }, 'must be none, auto, required'],
    ['truncation', { truncation: 'auto' }, 'must be disabled'],
    ['input', { input: [] }, 'at least one item'],
    ['input', { input: undefined }, 'is required'],
    ['max_output_tokens', { max_output_tokens: 9_000_000 }, ''],
    ['text.format', { model, ...structured }, '', 'UNSUPPORTED_PARAMETER'],
    [
      'input.0.content.0.image_url',
      { input: [{ ...user, content: [byHttp] }] },
      '',
      'INVALID_INPUT_URL',
    ],
  ])(
    'name %s and reserve nothing (%o)',
    async (param, fields, sentence, code = 'INVALID_REQUEST') => {
      const { status, body } = await gateway.call('/v1/responses', {
        key: clients.caller.key,
        body: { model: 'gpt-4o', input: 'x', ...fields },
      });
      expect([status, body]).toMatchObject([
        400,
        {
          error: { type: 'invalid_request_error', code, param },
          requestId: expect.stringMatching(/^req_/),
        },
      ]);
      expect(body.message.startsWith(`${param}: `), body.message).toBe(true);
      expect(body.message).toContain(sentence);
      expect(await readChats(gateway, clients.caller)).toEqual([]);
    },
  );

  it('have OpenAI’s shape for every unknown path and method below /v1', async () => {
    await expect(responses().retrieve('resp_1')).rejects.toBeInstanceOf(NotFoundError);
    expect(await gateway.call('/v1/moderations', { body: {} })).toMatchObject({
      status: 404,
      body: {
        error: {
          message: expect.stringContaining('POST /v1/moderations does not exist'),
          type: 'invalid_request_error',
          code: 'NOT_FOUND',
          param: null,
        },
      },
    });
    expect(await gateway.call('/v1/responses')).toMatchObject({
      status: 405,
      body: { error: { code: 'METHOD_NOT_ALLOWED' } },
    });
  });
});

it('lists what it ignores: store, and references to reasoning and to the text before a tool call', async () => {
  const { status, headers, body } = await gateway.call<{ store: boolean }>('/v1/responses', {
    key: clients.caller.key,
    body: {
      model: 'gpt-4o',
      store: true,
      input: [
        { role: 'user', content: 'x' },
        { type: 'item_reference', id: 'rs_1' },
        { type: 'item_reference', id: 'msg_1' },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'y' },
      ],
    },
  });
  expect([status, body.store]).toEqual([200, false]);
  expect(headers.get('x-ignored-fields')).toBe('store, input.1, input.2');
});
