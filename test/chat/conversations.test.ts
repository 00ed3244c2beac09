/**
 * Conversations as callers send them, and as each provider receives them. A row is a conversation
 * at an endpoint; it names a part of the body that the provider of each model must receive.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  chatRequestSchema,
  completionsRequestSchema,
} from '../../chat/formats/completions-request.ts';
import { countRequestSchema, messagesRequestSchema } from '../../chat/formats/messages-request.ts';
import { responsesRequestSchema } from '../../chat/formats/responses-request.ts';
import { useGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { readChats } from './chat-account.ts';
import { onePixel, onePixelUrl } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

type Json = Record<string, unknown>;

/** Bodies that the stand-in of the providers has received, oldest first. */
const received: Json[] = [];
/** Content of the next answers of Anthropic's protocol, and delta of those of OpenAI's. */
let content: object[] = [];
let completion: object = {};
const server = await startHttpServer((request, response) => {
  let sentText = '';
  request.on('data', (bytes: Buffer) => (sentText += bytes.toString()));
  request.once('end', () => {
    received.push(JSON.parse(sentText) as Json);
    const usage = { input_tokens: 5, output_tokens: 2, prompt_tokens: 5, completion_tokens: 2 };
    const choices = [{ index: 0, message: completion, finish_reason: 'stop' }];
    const body = request.url?.endsWith('/v1/messages')
      ? { id: 'm', model: 'x', stop_reason: 'end_turn', content, usage }
      : { object: 'chat.completion', created: 1, choices, usage };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
});
afterAll(server.close);
const providers =
  'OPENAI ANTHROPIC GOOGLE XAI MISTRAL DEEPSEEK META MOONSHOTAI ZAI MINIMAX XIAOMI GROQ CEREBRAS TOGETHER';
const gateway = useGateway({
  settled: 'last',
  env: Object.fromEntries(
    providers.split(' ').flatMap((name) => [
      [`${name}_API_KEY`, 'key'],
      [`${name}_BASE_URL`, server.url],
    ]),
  ),
});

async function send(path: string, body: Json) {
  content = [{ type: 'text', text: 'fine' }];
  completion = { role: 'assistant', content: 'fine' };
  return answer(path, body);
}

/** Sends a request, for which the caller has set the answer. */
async function answer(path: string, body: Json) {
  const caller = await gateway.newCaller({ credits: 100 });
  const max = path === '/messages' ? { max_tokens: 2000 } : {};
  const before = received.length;
  const response = await postChat(gateway, caller, { path, body: { ...max, ...body } });
  const json = (await response.json()) as Json;
  return {
    caller,
    status: response.status,
    ignored: response.headers.get('x-ignored-fields'),
    json,
    sent: received.length > before ? received.at(-1) : undefined,
  };
}

const claude = 'claude-sonnet-5';
const oldClaude = 'claude-haiku-4-5';
const minimax = 'MiniMax-M3';
const gpt = 'gpt-5-mini';
const mistral = 'mistral-large-2512';
const deepseek = 'deepseek-flash';

const text = (value: string) => ({ type: 'text', text: value });
const user = (...blocks: unknown[]) => ({ role: 'user', content: blocks });
const assistant = (...blocks: unknown[]) => ({ role: 'assistant', content: blocks });
const question = user(text('q'));
const reminder = (value: string) => `<system-reminder>\n${value}\n</system-reminder>`;
const wireCall = (id: string, name = 'f', json = '{}') => ({
  id,
  type: 'function',
  function: { name, arguments: json },
});
const use = (id: string, name = 'f') => ({ type: 'tool_use', id, name, input: {} });
const result = (id: string, value = 'r') => ({
  type: 'tool_result',
  tool_use_id: id,
  content: value,
});
const thinking = (value: string, signature = `sig_${value}`) => ({
  type: 'thinking',
  thinking: value,
  signature,
});
const detail = (value: string, fields: object = {}) => ({
  type: 'reasoning.text',
  text: value,
  signature: `sig_${value}`,
  provider: 'anthropic',
  ...fields,
});

/** Title, path, body without a model, and the messages or fields that each model's provider gets. */
type Row = [title: string, path: string, body: Json, sent: Record<string, unknown>];
const chats = ['/chat', '/chat/completions'];

const systemRows: Row[] = [
  [
    'keeps instructions within messages at their place',
    '/messages',
    {
      messages: [
        { role: 'user', content: 'q' },
        { role: 'system', content: 'now' },
      ],
    },
    {
      [claude]: [question, { role: 'system', content: [text('now')] }],
      'claude-opus-5': [question, { role: 'system', content: [text('now')] }],
      [oldClaude]: [user(text('q'), text(reminder('now')))],
      [minimax]: [user(text('q'), text(reminder('now')))],
      [gpt]: [
        { role: 'user', content: 'q' },
        { role: 'system', content: 'now' },
      ],
      [mistral]: [
        { role: 'user', content: 'q' },
        { role: 'user', content: reminder('now') },
      ],
    },
  ],
  [
    'keeps blocks of instructions, and joins neighbors',
    '/messages',
    {
      system: 'first',
      messages: [
        question,
        { role: 'system', content: [text('a')] },
        { role: 'system', content: 'b' },
        assistant(text('x')),
        { role: 'user', content: 'z' },
      ],
    },
    {
      [claude]: [
        question,
        { role: 'system', content: [text('a'), text('b')] },
        assistant(text('x')),
        user(text('z')),
      ],
    },
  ],
  [
    'makes instructions after an answer a part of the turn of the user, after its results',
    '/messages',
    {
      messages: [
        question,
        assistant(use('u1')),
        { role: 'system', content: 'now' },
        user(result('u1')),
      ],
    },
    {
      [claude]: [question, assistant(use('u1')), user(result('u1'), text(reminder('now')))],
      [gpt]: [
        {},
        { role: 'assistant', tool_calls: [wireCall('u1')] },
        { role: 'tool', tool_call_id: 'u1' },
        { role: 'system', content: 'now' },
      ],
    },
  ],
  ...chats.map((path): Row => [
    'moves only the system messages at the start to the system prompt',
    path,
    {
      messages: [
        { role: 'system', content: 'a' },
        { role: 'system', content: 'b' },
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'x' },
        { role: 'system', content: 'c' },
        { role: 'user', content: 'z' },
      ],
    },
    {
      [claude]: {
        system: 'a\n\nb',
        messages: [question, assistant(text('x')), user(text(reminder('c')), text('z'))],
      },
      [mistral]: [
        { role: 'system', content: 'a\n\nb' },
        {},
        {},
        { role: 'user', content: reminder('c') },
        {},
      ],
      [gpt]: [{ content: 'a' }, { content: 'b' }, {}, {}, { role: 'system', content: 'c' }, {}],
    },
  ]),
];

const interleaved = [thinking('S1'), use('u1', 'a'), text('w'), thinking('S2'), use('u2', 'b')];
const results = user(result('u1'), result('u2'));
const orderRows: Row[] = [
  [
    'keeps the order of blocks',
    '/messages',
    { messages: [question, assistant(...interleaved), results] },
    {
      [claude]: [question, assistant(...interleaved), results],
      [gpt]: [
        {},
        { role: 'assistant', content: 'w', tool_calls: [wireCall('u1', 'a'), wireCall('u2', 'b')] },
        { role: 'tool' },
        { role: 'tool' },
      ],
    },
  ],
  [
    'puts each thought and text where its place says',
    '/chat/completions',
    {
      messages: [
        { role: 'user', content: 'q' },
        {
          role: 'assistant',
          content: 'w',
          reasoning_content: 'S1S2',
          reasoning_details: [
            detail('S1', { tool_call_index: 0, content_offset: 0 }),
            detail('S2', { tool_call_index: 1, content_offset: 1 }),
          ],
          tool_calls: [
            { ...wireCall('u1', 'a'), content_offset: 0 },
            { ...wireCall('u2', 'b'), content_offset: 1 },
          ],
        },
        { role: 'tool', tool_call_id: 'u1', content: 'r' },
        { role: 'tool', tool_call_id: 'u2', content: 'r' },
      ],
    },
    { [claude]: [question, assistant(...interleaved), results] },
  ],
  [
    'keeps a word after a call in the message of the call',
    '/responses',
    {
      input: [
        { role: 'user', content: 'q' },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '\n' }] },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] },
        { type: 'function_call', call_id: 'c2', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'r' },
        { type: 'function_call_output', call_id: 'c2', output: 'r' },
      ],
    },
    {
      [gpt]: [
        { role: 'user' },
        { role: 'assistant', content: '\n', tool_calls: [wireCall('c1'), wireCall('c2')] },
        { role: 'tool', tool_call_id: 'c1' },
        { role: 'tool', tool_call_id: 'c2' },
      ],
      [claude]: [question, assistant(use('c1'), use('c2')), user(result('c1'), result('c2'))],
    },
  ],
  [
    'answers results before a word of the user, where a provider requires it',
    '/messages',
    { messages: [question, assistant(use('abcdefgh1')), user(result('abcdefgh1'), text('go on'))] },
    {
      [mistral]: [
        {},
        { tool_calls: [{ id: 'abcdefgh1' }] },
        { role: 'tool', tool_call_id: 'abcdefgh1' },
        { role: 'assistant', content: 'Understood.' },
        { role: 'user', content: [text('go on')] },
      ],
      [gpt]: [{}, {}, { role: 'tool' }, { role: 'user', content: [text('go on')] }],
    },
  ],
];

const sealed = (provider: string, signature: string) =>
  `sg1.${Buffer.from(JSON.stringify({ thought: { provider, signature, data: '' } })).toString('base64url')}`;
const makerRows: Row[] = [
  [
    'sends a thought only to the provider that made it',
    '/messages',
    {
      messages: [
        question,
        assistant(thinking('M', sealed('minimax', 'SIGMM')), thinking('C'), text('x')),
        question,
      ],
    },
    {
      [claude]: [{}, assistant(thinking('C'), text('x')), {}],
      [minimax]: [{}, assistant(thinking('M', 'SIGMM'), text('x')), {}],
    },
  ],
  [
    'drops a thought of another provider, and the turn if nothing else is in it',
    '/chat/completions',
    {
      messages: [
        { role: 'user', content: 'q' },
        {
          role: 'assistant',
          content: '',
          reasoning_details: [detail('M', { provider: 'minimax' })],
        },
        { role: 'user', content: 'q' },
      ],
    },
    { [claude]: [user(text('q'), text('q'))] },
  ],
  [
    'reasoning text reaches a provider that takes it, unless another one made it',
    '/chat/completions',
    {
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'a', reasoning_content: 'mine' },
        { role: 'user', content: 'q' },
        {
          role: 'assistant',
          content: 'b',
          reasoning_content: 'C',
          reasoning_details: [detail('C')],
        },
        { role: 'user', content: 'q' },
      ],
    },
    { [deepseek]: [{}, { reasoning_content: 'mine' }, {}, { reasoning_content: '' }, {}] },
  ],
];

const emptyRows: Row[] = [
  [
    'drops blank texts and turns, and keeps a refusal as text',
    '/chat/completions',
    {
      messages: [
        { role: 'system', content: ' ' },
        { role: 'user', content: 'q' },
        { role: 'assistant', content: '\n\n' },
        { role: 'user', content: [text(' '), text('z')] },
        { role: 'assistant', content: null, refusal: 'I will not' },
        { role: 'user', content: 'q' },
      ],
    },
    {
      [claude]: [user(text('q'), text('z')), assistant(text('I will not')), question],
      [mistral]: [{}, {}, {}, {}, { role: 'assistant', content: 'I will not' }, {}],
      [gpt]: [{}, {}, {}, {}, { role: 'assistant', content: null, refusal: 'I will not' }, {}],
    },
  ],
  [
    'drops blank blocks of an answer, and blanks at the end of the last one',
    '/messages',
    { messages: [question, assistant(), question, assistant(text(' '), text('It is '))] },
    { [claude]: [user(text('q'), text('q')), assistant(text('It is'))] },
  ],
  [
    'a call without arguments has an empty object',
    '/chat/completions',
    {
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: '', tool_calls: [wireCall('c1', 'f', '')] },
        { role: 'tool', tool_call_id: 'c1', content: '' },
      ],
    },
    { [claude]: [{}, assistant(use('c1')), user(result('c1', ''))] },
  ],
];

const noTools = { tools: [], tool_choice: 'auto', parallel_tool_calls: true };
const say = { messages: [{ role: 'user', content: 'q' }] };
const absent = (...names: string[]) => Object.fromEntries(names.map((name) => [name, undefined]));
const withoutTools = absent(
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'stop',
  'stop_sequences',
);
const optionRows: Row[] = [
  [
    'drops settings of tools without tools',
    '/chat/completions',
    { ...say, ...noTools, stop: [''] },
    { [gpt]: withoutTools, [claude]: withoutTools },
  ],
  [
    'drops settings of tools without tools',
    '/chat/completions',
    { ...say, tool_choice: 'none', stop: [] },
    { [gpt]: withoutTools },
  ],
  [
    'drops settings of tools without tools',
    '/responses',
    { input: 'q', ...noTools },
    { [gpt]: withoutTools },
  ],
  [
    'drops settings of tools without tools',
    '/messages',
    { ...say, tools: [], tool_choice: { type: 'auto' }, stop_sequences: [], mcp_servers: [] },
    { [gpt]: withoutTools, [claude]: withoutTools },
  ],
];

const long = 'x'.repeat(90);
const uuid = 'toolu_01abcdef';
const turnsOf = (...ids: string[]) => ({
  messages: [
    { role: 'user', content: 'q' },
    ...ids.flatMap((id) => [
      { role: 'assistant', content: null, tool_calls: [wireCall(id)] },
      { role: 'tool', tool_call_id: id, content: 'r' },
    ]),
  ],
});
/** Ids of calls and of results in a sent body, in order. */
const callIds = (sent: Json | undefined) =>
  [
    ...JSON.stringify(sent?.['messages']).matchAll(/"(?:id|tool_call_id|tool_use_id)":"([^"]*)"/g),
  ].map(([, id = '']) => id);

describe('ids of tool calls', () => {
  it.each([
    [claude, /^[\w-]+$/, [uuid, long]],
    [minimax, /^[\w-]+$/, [uuid, long]],
    [gpt, /^.{1,40}$/, [uuid, 'functions.write:0', 'Bash:0', 'a|b']],
    ['gemini-3.5-flash', /^.{1,40}$/, [uuid, 'functions.write:0', 'Bash:0', 'a|b']],
    [mistral, /^[a-zA-Z0-9]{9}$/, ['abcDEF123']],
  ])('reach %s as it accepts them', async (model, valid, kept) => {
    const ids = [
      uuid,
      'functions.write:0',
      'functions.write:1',
      'Bash:0',
      'a|b',
      'a:b',
      long,
      `${long}y`,
      'abcDEF123',
    ];
    const { sent } = await send('/chat/completions', { model, ...turnsOf(...ids) });
    const pairs = callIds(sent);
    const calls = pairs.filter((_, index) => index % 2 === 0);
    expect(pairs.filter((_, index) => index % 2 === 1)).toEqual(calls);
    expect(new Set(calls).size).toBe(ids.length);
    for (const id of calls) expect(id).toMatch(valid);
    expect(calls.filter((id, index) => id === ids[index])).toEqual(expect.arrayContaining(kept));
    const again = await send('/chat/completions', { model, ...turnsOf(...ids) });
    expect(callIds(again.sent)).toEqual(pairs);
  });

  it('that a provider repeats stay with their results', async () => {
    const { sent } = await send('/chat/completions', {
      model: claude,
      ...turnsOf('Bash:0', 'Bash:0'),
    });
    const [first, firstResult, second, secondResult] = callIds(sent);
    expect([firstResult, secondResult]).toEqual([first, second]);
    expect(first).not.toBe(second);
  });

  it.each([claude, gpt, mistral])('that are empty become ids, in order, for %s', async (model) => {
    const { status, sent } = await send('/chat/completions', { model, ...turnsOf('', '') });
    const [first = '', firstResult, second = '', secondResult] = callIds(sent);
    expect([status, firstResult, secondResult]).toEqual([200, first, second]);
    expect(first).not.toBe(second);
    expect(Math.min(first.length, second.length)).toBeGreaterThan(8);
    const { blocks, items } = {
      blocks: [question, assistant(use('')), user(result(''))],
      items: [
        { role: 'user', content: 'q' },
        { type: 'function_call', call_id: '', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: '', output: 'r' },
      ],
    };
    for (const [path, body] of [
      ['/messages', { messages: blocks }],
      ['/responses', { input: items }],
    ] as const) {
      const again = await send(path, { model, ...body });
      expect([again.status, ...callIds(again.sent)]).toEqual([200, first, first]);
    }
  });

  it.each([claude, gpt])(
    'with two results are answered by both, in order, for %s',
    async (model) => {
      const call = (id: string) => ({
        type: 'function_call',
        call_id: id,
        name: 'f',
        arguments: '{}',
      });
      const output = (id: string, value: unknown) => ({
        type: 'function_call_output',
        call_id: id,
        output: value,
      });
      const { sent } = await send('/responses', {
        model,
        input: [
          { role: 'user', content: 'q' },
          call('c1'),
          call('c2'),
          output('c1', 'note one'),
          output('c2', [{ type: 'input_text', text: 'two' }]),
          output('c1', [{ type: 'input_text', text: 'end one' }]),
          { role: 'assistant', content: 'so' },
          { role: 'user', content: 'go on' },
          call('c1'),
          output('c1', 'another call'),
        ],
      });
      const [c1, c2, r1, r2, c3, r3] = callIds(sent);
      expect([r1, r2, r3]).toEqual([c1, c2, c3]);
      expect(callIds(sent)).toHaveLength(6);
      const wire = JSON.stringify(sent);
      expect(wire).toContain('note one\\nend one');
      expect(wire.indexOf('another call')).toBeGreaterThan(wire.indexOf('end one'));
    },
  );

  it('with two results fail if one of them reports a failure', async () => {
    const failed = { ...result('c1'), is_error: true };
    const { sent } = await send('/messages', {
      model: claude,
      messages: [question, assistant(use('c1')), user(result('c1'), failed)],
    });
    expect(callIds(sent)).toEqual(['c1', 'c1']);
    expect(JSON.stringify(sent)).toContain('"is_error":true');
  });

  it.each(['/responses', '/messages'])('are mapped on %s too', async (path) => {
    const turns = {
      '/responses': {
        input: [
          { role: 'user', content: 'q' },
          { type: 'function_call', call_id: 'a|b', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'a|b', output: 'r' },
        ],
      },
      '/messages': { messages: [question, assistant(use('a|b')), user(result('a|b'))] },
    }[path];
    const { sent } = await send(path, { model: claude, ...turns });
    const [call = '', itsResult] = callIds(sent);
    expect(call).toMatch(/^toolu_\w+$/);
    expect(itsResult).toBe(call);
  });
});

const hints = {
  prompt_cache_key: 'k',
  store: false,
  safety_identifier: 's',
  verbosity: 'low',
  prompt_cache_retention: '24h',
};
const ignoredHints =
  'prompt_cache_key, prompt_cache_retention, safety_identifier, store, verbosity';
describe('hints', () => {
  it.each([
    [gpt, null, { ...hints, user: 'u' }],
    ['gemini-3.5-flash', ignoredHints.replace('store', 'store, user'), {}],
    [mistral, ignoredHints.replace('store', 'store, user'), {}],
    [deepseek, ignoredHints.replace('store', 'store, user'), {}],
    ['kimi-k3', ignoredHints.replace('store', 'store, user'), {}],
    ['grok-4.7', ignoredHints, { user: 'u' }],
    ['groq/openai/gpt-oss-120b', ignoredHints, { user: 'u' }],
    [claude, ignoredHints, { metadata: { user_id: 'u' } }],
  ])('of %s: X-Ignored-Fields is %s', async (model, ignored, taken) => {
    const body = { model, ...say, ...hints, user: 'u' };
    const whole = await send('/chat/completions', body);
    expect([whole.status, whole.ignored]).toEqual([200, ignored]);
    const names = [...Object.keys(hints), 'user', 'metadata'];
    const sent = Object.entries(whole.sent ?? {}).filter(([name]) => names.includes(name));
    expect(Object.fromEntries(sent)).toEqual(taken);
  });

  it('are named as the endpoint names them', async () => {
    const body = { model: mistral, input: 'q', text: { verbosity: 'low' }, prompt_cache_key: 'k' };
    expect((await send('/responses', body)).ignored).toBe('prompt_cache_key, text.verbosity');
    const message = { model: mistral, ...say, metadata: { user_id: 'u' } };
    expect((await send('/messages', message)).ignored).toBe('metadata.user_id');
  });

  it('that identify somebody are hashed if they are too long', async () => {
    const id = 'u'.repeat(155);
    const message = { ...say, metadata: { user_id: id } };
    const [first, again, anthropic] = [
      await send('/messages', { model: gpt, ...message }),
      await send('/chat/completions', { model: gpt, ...say, user: id, safety_identifier: id }),
      await send('/messages', { model: claude, ...message }),
    ];
    expect(first.sent?.['user']).toMatch(/^[\da-f]{64}$/);
    expect(again.sent).toMatchObject({
      user: first.sent?.['user'],
      safety_identifier: first.sent?.['user'],
    });
    expect(anthropic.sent).toMatchObject({ metadata: { user_id: id } });
  });
});

const schemas = {
  '/chat': chatRequestSchema,
  '/chat/completions': completionsRequestSchema,
  '/responses': responsesRequestSchema,
  '/messages': messagesRequestSchema,
  '/messages/count_tokens': countRequestSchema,
};
type Node = z.core.JSONSchema.JSONSchema;
/** Returns the paths of optional fields that do not accept null. */
function listWithoutNull(node: Node, path: string): string[] {
  const alternatives = [...(node.anyOf ?? []), ...(node.oneOf ?? [])] as Node[];
  const items = [node.items ?? []].flat() as Node[];
  const fields = Object.entries(node.properties ?? {}) as [string, Node][];
  const acceptsNull = ({ type, anyOf = [], oneOf = [] }: Node): boolean =>
    [type].flat().includes('null') || ([...anyOf, ...oneOf] as Node[]).some(acceptsNull);
  const optional = fields.filter(([name]) => !(node.required ?? []).includes(name));
  return [
    ...optional.filter(([, field]) => !acceptsNull(field)).map(([name]) => `${path}.${name}`),
    ...alternatives.flatMap((each) => listWithoutNull(each, path)),
    ...items.flatMap((each) => listWithoutNull(each, `${path}.*`)),
    ...fields.flatMap(([name, field]) => listWithoutNull(field, `${path}.${name}`)),
  ];
}

describe('an explicit null', () => {
  it.each(Object.entries(schemas))('is accepted in every optional field of %s', (path, schema) => {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    expect(listWithoutNull(json, path)).toEqual([]);
  });

  it('reaches no provider', async () => {
    const nulls = { description: null, parameters: null, strict: null };
    const body = {
      messages: [
        {
          role: 'user',
          name: null,
          content: [
            { ...text('q'), cache_control: null },
            {
              type: 'image_url',
              image_url: { url: onePixelUrl, detail: null },
              cache_control: null,
            },
          ],
        },
      ],
      tools: [{ type: 'function', function: { name: 'f', ...nulls }, cache_control: null }],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: {}, ...nulls } },
    };
    for (const model of [gpt, mistral, claude]) {
      const { status, sent } = await send('/chat/completions', { model, ...body });
      expect([status, JSON.stringify(sent)]).toEqual([200, expect.not.stringContaining('null')]);
    }
    const items = [{ type: null, role: 'user', content: 'q' }];
    expect((await send('/responses', { model: gpt, input: items })).status).toBe(200);
  });
});

const jpegUrl = `data:image/jpeg;base64,${onePixel}`;
const base64 = (value: string) => Buffer.from(value).toString('base64');
const pdf = base64('%PDF-1.4 x');
const wrapped = onePixel.replaceAll(/.{40}/g, '$&\r\n');
const base64url = onePixel.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
/** Ways to put a picture into a request; `source` reads it from what the provider receives. */
const pictureDoors: Record<string, (url: string) => Json> = {
  '/chat/completions': (url) => ({ messages: [user({ type: 'image_url', image_url: { url } })] }),
  '/responses': (url) => ({ input: [user({ type: 'input_image', image_url: url })] }),
};
describe.each(Object.entries(pictureDoors))('a picture on %s', (path, body) => {
  it.each([
    ['image/jpg', `data:image/jpg;base64,${onePixel}`],
    ['a wrong type', jpegUrl],
    ['upper case', `DATA:IMAGE/PNG;BASE64,${onePixel}`],
    ['parameters', `data:image/png;charset=utf-8;name="a b.png";base64,${onePixel}`],
    ['no type', `data:;base64,${onePixel}`],
    ['line breaks', `data:image/png;base64,${wrapped}`],
    ['base64url without padding', `data:image/png;base64,${base64url}`],
    ['percent-encoding', `data:image/png;base64,${encodeURIComponent(onePixel)}`],
  ])('with %s reaches every provider in its canonical form', async (_title, url) => {
    const openai = await send(path, { model: gpt, ...body(url) });
    expect(JSON.stringify(openai.sent?.['messages'])).toContain(`{"url":"${onePixelUrl}"}`);
    const anthropic = await send(path, { model: claude, ...body(url) });
    const source = { type: 'base64', media_type: 'image/png', data: onePixel };
    expect(anthropic.sent?.['messages']).toEqual([user({ type: 'image', source })]);
  });

  it.each([
    ['no picture', `data:image/png;base64,${base64('hello')}`],
    ['a document', `data:application/pdf;base64,${pdf}`],
    ['broken base64', `data:image/png;base64,${onePixel.slice(0, 40)}!${onePixel.slice(40)}`],
    ['a length that no bytes have', 'data:image/png;base64,iVBOR'],
    ['no data', 'data:image/png;base64,'],
    ['no comma', 'data:image/png;base64'],
  ])('with %s is rejected by its field, and nothing is reserved', async (_title, url) => {
    const { status, json, caller } = await send(path, { model: gpt, ...body(url) });
    const at =
      path === '/responses' ? 'input.0.content.0.image_url' : 'messages.0.content.0.image_url.url';
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining(`${at}: `)]);
    expect(await readChats(gateway, caller)).toEqual([]);
  });
});

describe('pictures and documents in blocks', () => {
  const image = (media_type: string, data: string) => ({
    type: 'image',
    source: { type: 'base64', media_type, data },
  });
  it('have the type of their bytes, in results of tools too', async () => {
    const shown = { ...result('u1'), content: [image('IMAGE/JPG', wrapped)] };
    const { sent } = await send('/messages', {
      model: claude,
      messages: [question, assistant(use('u1')), user(shown)],
    });
    expect(sent?.['messages']).toMatchObject([
      {},
      {},
      user({ content: [image('image/png', onePixel)] }),
    ]);
  });

  it.each([
    [
      'messages.0.content.1.source',
      [question, user(text('q'), image('image/png', base64('no')))],
      1,
    ],
    [
      'messages.2.content.0.content.0.source',
      [
        question,
        assistant(use('u1')),
        user({ ...result('u1'), content: [image('image/png', '!!')] }),
      ],
      0,
    ],
  ])('are rejected by the field %s', async (at, messages) => {
    const sentMessages = at.startsWith('messages.0') ? messages.slice(1) : messages;
    const { status, json } = await send('/messages', {
      model: claude,
      system: 's',
      messages: sentMessages,
    });
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining(`${at}: `)]);
  });

  const file = (file_data: string, fields: object = {}) => ({
    messages: [user({ type: 'file', file: { file_data, ...fields } })],
  });
  const pdfSource = { type: 'base64', media_type: 'application/pdf', data: pdf };
  it.each([
    [
      'a name in its type',
      `data:application/pdf;name=a%20b.pdf;base64,${pdf}`,
      { type: 'document', source: pdfSource, title: 'a b.pdf' },
    ],
    ['no type', `data:;base64,${pdf}`, { type: 'document', source: pdfSource }],
    [
      'text',
      `data:text/plain;base64,${base64('häfen')}`,
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'häfen' } },
    ],
    [
      'text without base64',
      'data:,h%C3%A4fen',
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'häfen' } },
    ],
    ['a picture', `data:application/pdf;base64,${onePixel}`, image('image/png', onePixel)],
  ])('with %s reach Claude', async (_title, url, block) => {
    const { sent } = await send('/chat/completions', { model: claude, ...file(url) });
    expect(sent?.['messages']).toEqual([user(block)]);
  });

  it('a document of OpenAI keeps its name', async () => {
    const url = `data:application/pdf;name=a.pdf;base64,${pdf}`;
    const { sent } = await send('/chat/completions', { model: gpt, ...file(url) });
    const sentFile = { file_data: `data:application/pdf;base64,${pdf}`, filename: 'a.pdf' };
    expect(sent?.['messages']).toEqual([user({ type: 'file', file: sentFile })]);
  });

  it.each([
    [gpt, `data:application/pdf;base64,${base64('hello')}`, 'file.file_data: must contain a PDF'],
    [
      gpt,
      `data:;base64,${Buffer.from([0, 1, 255]).toString('base64')}`,
      'file.file_data: must name the type',
    ],
    [gpt, 'JVBERi0', 'file.file_data: must be a data URI'],
    [claude, `data:application/zip;base64,${base64('PK')}`, 'accepts only PDF and text documents'],
  ])('of %s are rejected by their field', async (model, url, message) => {
    const { status, json } = await send('/chat/completions', { model, ...file(url) });
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining(message)]);
    expect(JSON.stringify(json)).toContain('messages.0.content.0');
  });
});

describe('errors', () => {
  const badCall = { type: 'function_call', call_id: 'c', name: 'f', arguments: '[]' };
  it.each([
    ['/chat', { messages: [{ role: 'user', content: ' ' }] }, 'messages.0.content'],
    [
      '/messages',
      { system: 's', messages: [question, { role: 'user', content: ' ' }] },
      'messages.1.content',
    ],
    [
      '/responses',
      { instructions: 's', input: [{ role: 'user', content: '' }] },
      'input.0.content',
    ],
    ['/responses', { input: [{ role: 'user', content: 'q' }, badCall] }, 'input.1.arguments'],
    [
      '/chat/completions',
      {
        messages: [
          { role: 'user', content: 'q' },
          { role: 'assistant', tool_calls: [wireCall('a'), wireCall('c', 'f', 'null')] },
        ],
      },
      'messages.1.tool_calls.1.function.arguments',
    ],
  ])('of %s name the field of the caller', async (path, body, at) => {
    const { status, json, caller } = await send(path, { model: claude, ...body });
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining(`${at}: `)]);
    expect(await readChats(gateway, caller)).toEqual([]);
  });

  it.each([
    ['/chat', { messages: [{ role: 'user', content: 'a\0b' }] }, 'messages.0.content'],
    ['/responses', { input: [{ role: 'user', content: 'cut \ud83d' }] }, 'input.0.content'],
    ['/messages', { messages: [user(text('q'), text('\udc00'))] }, 'messages.0.content.1.text'],
  ])('of %s name the field with NUL or half a character', async (path, body, at) => {
    const { status, json } = await send(path, { model: gpt, ...body });
    expect([status, JSON.stringify(json)]).toEqual([
      400,
      expect.stringContaining(`${at}: must not contain NUL`),
    ]);
  });
});

describe('an answer', () => {
  it.each([claude, minimax])(
    'of %s is accepted again in its order on every endpoint',
    async (model) => {
      const blocks = [thinking('S1'), use('u1', 'a'), text('w'), thinking('S2'), use('u2', 'b')];
      content = blocks;
      const ask = { model, messages: [{ role: 'user', content: 'q' }] };
      const tail = (role: string) =>
        ['u1', 'u2'].map((id) => ({ role, tool_call_id: id, content: 'r' }));
      const { json: message } = await answer('/messages', ask);
      expect((message['content'] as Json[]).map(({ type }) => type)).toEqual(
        blocks.map(({ type }) => type),
      );
      const { json: chat } = await answer('/chat/completions', ask);
      const [choice] = chat['choices'] as { message: object }[];
      const { json: response } = await answer('/responses', { model, input: 'q' });
      const returned: [string, Json][] = [
        ['/messages', { messages: [question, assistant(...(message['content'] as [])), results] }],
        ['/chat/completions', { messages: [...ask.messages, choice?.message, ...tail('tool')] }],
        [
          '/responses',
          {
            input: [
              { role: 'user', content: 'q' },
              ...(response['output'] as []),
              ...['u1', 'u2'].map((call_id) => ({
                type: 'function_call_output',
                call_id,
                output: 'r',
              })),
            ],
          },
        ],
      ];
      for (const [path, body] of returned) {
        const own = await send(path, { model, ...body });
        expect([path, own.sent?.['messages']]).toEqual([
          path,
          [question, assistant(...blocks), results],
        ]);
        const other = await send(path, { model: model === claude ? minimax : claude, ...body });
        const kept = blocks.filter(({ type }) => type !== 'thinking');
        expect([path, other.sent?.['messages']]).toEqual([
          path,
          [question, assistant(...kept), results],
        ]);
      }
    },
  );

  it('that ends within a character is well-formed, and is accepted again', async () => {
    completion = { role: 'assistant', content: 'cut \ud83d', reasoning_content: 'a\0b' };
    const { json } = await answer('/chat/completions', { model: deepseek, ...say });
    const [choice] = json['choices'] as { message: Json }[];
    expect(choice?.message).toMatchObject({ content: 'cut \ufffd', reasoning_content: 'ab' });
    const cut = {
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'cut \ud83d' },
        { role: 'user', content: 'q' },
      ],
    };
    const { status, sent } = await send('/chat/completions', { model: gpt, ...cut });
    expect(status).toBe(200);
    expect(sent).toMatchObject({ messages: [{}, { content: 'cut \ufffd' }, {}] });
  });
});

/** Picks the part of a sent body that a row describes: the messages, or the named fields. */
const pick = (sent: Json | undefined, expected: object) =>
  Array.isArray(expected)
    ? sent?.['messages']
    : Object.fromEntries(Object.keys(expected).map((name) => [name, sent?.[name]]));

const rows = [systemRows, orderRows, makerRows, emptyRows, optionRows].flat();
describe.each(rows)('%s: %s', (_title, path, body, sent) => {
  it.each(Object.entries(sent))('to %s', async (model, expected) => {
    const { status, json, sent: body_ } = await send(path, { model, ...body });
    expect([status, JSON.stringify(json)]).toEqual([200, expect.any(String)]);
    expect(pick(body_, expected as object)).toMatchObject(expected as object);
    if (Array.isArray(expected)) expect(body_?.['messages']).toHaveLength(expected.length);
  });
});
