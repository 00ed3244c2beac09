/**
 * Messages and tool calls that a client sends back unchanged, including the fields of each maker.
 */
import type { ChatCompletionMessageParam } from 'openai/resources';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { readChats, untilAllSettled } from './chat-account.ts';
import { say, useClients } from './chat-clients.ts';
import { everyLoop, lookUpFunction, toolLoops } from './tool-loops.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const models = ['gemini-3.5-flash', 'gemini-2.5-flash', 'claude-sonnet-5', 'gpt-5-mini'];
const signature = 'sig_look_up';
const placeholder = 'skip_thought_signature_validator';

describe.each([...models, 'deepseek-flash', 'mistral-large-2512'])('%s', (model) => {
  it.each(everyLoop)(
    'accepts the third turn of a tool loop of %s (streamed: %s)',
    async (endpoint, stream) => {
      const question = '[[tool-rounds:2]] [[parallel-calls:2]] [[preface]] the tide';
      const conversation = await toolLoops[endpoint](clients, { model, question, stream });
      const text = JSON.stringify(conversation);
      expect(text.match(/Let me look/g)).toHaveLength(2);
      expect(text.match(/"name":"look_up"/g)).toHaveLength(4);
      expect(text.match(/"place\\?":\\?"\w/g)).toHaveLength(4);
      expect(JSON.stringify(conversation.at(-1))).toMatch(/The tool said: .*deep/);
      expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(3);
      if (!model.startsWith('gemini')) return;
      const sent = JSON.stringify((await gateway.sandbox.chatRequests('the tide')).at(-1));
      expect(sent.split(signature)).toHaveLength(3);
      expect(sent).not.toContain(placeholder);
    },
  );
});

describe('thought signatures', () => {
  it('reach Google, and no other provider', async () => {
    const [model = '', ...others] = models;
    const loop = { model, question: 'a thought to sign', stream: false };
    const messages = (await toolLoops.completions(clients, loop)).slice(0, -1);
    for (const other of others) await clients.complete({ model: other, messages });
    const sent = await gateway.sandbox.chatRequests('a thought to sign');
    const signed = sent.map((body) => JSON.stringify(body).includes(signature));
    expect(signed).toEqual([false, true, true, false, false]);
  });

  it('that a client dropped are replaced by Google’s documented placeholder', async () => {
    const call = { id: 'c1', type: 'function' as const };
    const messages: ChatCompletionMessageParam[] = [
      ...say('a thought without a signature'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...call, function: { name: 'look_up', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'low' },
    ];
    for (const model of models) await clients.complete({ model, messages });
    const [sent] = await gateway.sandbox.chatRequests('a thought without a signature');
    const extra_content = { google: { thought_signature: placeholder } };
    expect(sent?.['messages']).toMatchObject([{}, { tool_calls: [{ extra_content }] }, {}]);
  });
});

it.each(['claude-sonnet-5', 'claude-opus-4-8', 'claude-haiku-4-5', 'MiniMax-M3', 'gpt-5-mini'])(
  'instructions within the conversation are accepted by %s',
  async (model) => {
    const messages = [
      ...say('first'),
      { role: 'system', content: 'a' },
      { role: 'assistant', content: 'x' },
      { role: 'system', content: [{ type: 'text', text: 'b' }] },
      ...say('second'),
      { role: 'system', content: 'c' },
    ];
    const body = { model, max_tokens: 50, messages };
    const { status } = await gateway.call('/v1/messages', { key: clients.caller.key, body });
    expect(status).toBe(200);
  },
);

describe('unknown fields', () => {
  it('are dropped at every depth, and the response lists those outside of messages', async () => {
    const extra = { cache: 1, mime_type: 'text/plain', role: 'x' };
    const response = await gateway.call<{ content: string }>('/v1/chat/completions', {
      key: clients.caller.key,
      body: {
        model: 'gpt-5-mini',
        messages: [
          { ...extra, role: 'user', content: [{ type: 'text', text: 'unknown inside', ...extra }] },
          {
            role: 'assistant',
            content: [{ type: 'text', text: 'yes', annotations: [], ...extra }],
            refusal: null,
            annotations: [{ type: 'url_citation' }],
            audio: { id: 'audio_1' },
            parsed: { a: 1 },
            reasoning_details: [{ type: 'reasoning.text', text: 'hm', signature: 'sig' }],
            tool_calls: [
              {
                id: 'c1',
                index: 0,
                type: 'function',
                function: { name: 'look_up', arguments: '{}', ...extra },
                ...extra,
              },
            ],
          },
          { ...extra, role: 'tool', tool_call_id: 'c1', name: 'look_up', content: 'x' },
        ],
        tools: [
          { ...lookUpFunction, ...extra, function: { ...lookUpFunction.function, ...extra } },
        ],
        plugins: [{ id: 'web' }],
        stream_options: null,
        provider: { order: ['x'], data_collection: 'allow' },
      },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-ignored-fields')).toBe('plugins, provider.order');
    const [sent] = await gateway.sandbox.chatRequests('unknown inside');
    expect(sent).toMatchObject({
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'unknown inside' }] },
        {
          role: 'assistant',
          content: 'yes',
          tool_calls: [
            { id: 'c1', type: 'function', function: { name: 'look_up', arguments: '{}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'x' },
      ],
      tools: [lookUpFunction],
    });
    expect(JSON.stringify(sent)).not.toMatch(/mime_type|annotations|"cache"|reasoning/);
    const fields = ['max_completion_tokens', 'messages', 'model', 'tools'];
    expect(Object.keys(sent ?? {}).toSorted()).toEqual(fields);
  });

  it('an answer with an empty list of tool calls can be sent back', async () => {
    const { status } = await gateway.call('/v1/chat/completions', {
      key: clients.caller.key,
      body: {
        model: 'gpt-5-mini',
        messages: [
          { role: 'user', content: 'no calls' },
          { role: 'assistant', content: '', tool_calls: [] },
          { role: 'user', content: 'go on' },
        ],
      },
    });
    expect(status).toBe(200);
    const [sent] = await gateway.sandbox.chatRequests('no calls');
    expect(JSON.stringify(sent)).not.toContain('tool_calls');
  });

  const part = (fields: object) => ({ messages: [{ role: 'user', content: [fields] }] });
  it.each([
    [
      'messages.0.content.0.type',
      part({ type: 'imge' }),
      'must be one of text, image_url, input_audio, video_url, file',
    ],
    ['messages.0.content.0.text', part({ type: 'text', text: 5 }), 'must be a string'],
    ['messages.0.content', { messages: [{ role: 'user', content: 5 }] }, 'must be a string'],
    [
      'messages.0.content.0.file.file_id',
      part({ type: 'file', file: { file_id: 'file_1' } }),
      'must be the id of an uploaded file',
    ],
    ['tools.0.type', { tools: [{ type: 'web_search' }] }, 'must be function'],
    ['provider.data_collection', { provider: { data_collection: 'deny' } }, 'must be allow'],
    ['provider.zdr', { provider: { zdr: true } }, 'must be false'],
    ['provider.only', { provider: { only: ['x'] } }, 'each model of the gateway has one provider'],
  ])('do not hide an invalid value: %s', async (path, fields, sentence) => {
    const { status, body } = await gateway.call('/v1/chat/completions', {
      key: clients.caller.key,
      body: { model: 'gpt-5-mini', messages: say('x'), ...fields },
    });
    expect([status, body.details[0]?.path]).toEqual([400, path]);
    expect(body.details[0]?.message).toContain(sentence);
    expect(await readChats(gateway, clients.caller)).toEqual([]);
  });
});
