/**
 * Messages and tool calls that a client sends back unchanged, including the fields of each maker.
 */
import type OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { chatsOf, settledChatsOf } from './chat-account.ts';
import { say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

const lookUp: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'look_up',
    parameters: {
      type: 'object',
      properties: { place: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
      required: ['place', 'days'],
    },
  },
};
const question = '[[tool-rounds:2]] [[parallel-calls:2]] the tide';

type Message = OpenAI.Chat.ChatCompletionMessage;

/** Sends a chat, whole or as a stream, and returns the message as the client collects it. */
async function send(
  model: string,
  { messages, stream }: { messages: ChatCompletionMessageParam[]; stream: boolean },
): Promise<Message> {
  const request = { model, messages, tools: [lookUp] };
  if (stream) return clients.openai.chat.completions.stream(request).finalMessage();
  const completion = await clients.openai.chat.completions.create(request);
  const [choice] = completion.choices;
  if (!choice) throw new Error('the completion has no choice');
  return choice.message;
}

const models = ['gemini-3.5-flash', 'gemini-2.5-flash', 'claude-sonnet-5', 'gpt-5-mini'];

describe.each([...models, 'deepseek-flash', 'mistral-large-2512'])('%s', (model) => {
  it.each([false, true])('accepts the third turn of a tool loop (streamed: %s)', async (stream) => {
    const messages: ChatCompletionMessageParam[] = say(question);
    for (const turn of [1, 2]) {
      const message = await send(model, { messages, stream });
      expect(message.tool_calls, `turn ${turn}`).toHaveLength(2);
      messages.push(message);
      for (const call of message.tool_calls ?? []) {
        if (call.type !== 'function') throw new Error('a function was called');
        expect(JSON.parse(call.function.arguments)).toMatchObject({ place: expect.any(String) });
        messages.push({ role: 'tool', tool_call_id: call.id, content: `result ${turn}` });
      }
    }
    const last = await send(model, { messages, stream });
    expect(last.content).toContain('The tool said: result 2');
    expect(await settledChatsOf(gateway, clients.caller)).toHaveLength(3);
  });
});

describe('thought signatures', () => {
  it('reach Google unchanged, and no other provider', async () => {
    const messages: ChatCompletionMessageParam[] = say('[[tool-rounds:1]] signed');
    const message = await send('gemini-3.5-flash', { messages, stream: false });
    expect(message.tool_calls?.[0]).toMatchObject({
      extra_content: { google: { thought_signature: 'sig_look_up' } },
    });
    const [call] = message.tool_calls ?? [];
    messages.push(message, { role: 'tool', tool_call_id: call?.id ?? '', content: 'high' });
    for (const model of ['gemini-3.5-flash', 'gpt-5-mini', 'claude-sonnet-5']) {
      await send(model, { messages, stream: false });
    }
    const sent = await gateway.sandbox.chatRequests('signed');
    const signed = sent.map(({ body }) => JSON.stringify(body).includes('sig_look_up'));
    expect(signed).toEqual([false, true, false, false]);
  });

  it('that a client dropped are replaced by Google’s documented placeholder', async () => {
    const call = {
      id: 'c1',
      type: 'function' as const,
      function: { name: 'look_up', arguments: '{}' },
    };
    const messages: ChatCompletionMessageParam[] = [
      ...say('unsigned'),
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'low' },
    ];
    for (const model of models) await send(model, { messages, stream: false });
    const [sent] = await gateway.sandbox.chatRequests('unsigned');
    expect(sent?.body['messages']).toMatchObject([
      {},
      {
        tool_calls: [
          { extra_content: { google: { thought_signature: 'skip_thought_signature_validator' } } },
        ],
      },
      {},
    ]);
  });
});

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
        tools: [{ ...lookUp, ...extra, function: { ...lookUp.function, ...extra } }],
        plugins: [{ id: 'web' }],
        stream_options: null,
        provider: { order: ['x'], data_collection: 'allow' },
      },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-ignored-fields')).toBe('plugins, provider.order');
    const [sent] = await gateway.sandbox.chatRequests('unknown inside');
    expect(sent?.body).toMatchObject({
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'unknown inside' }] },
        {
          role: 'assistant',
          content: [{ type: 'text', text: 'yes' }],
          tool_calls: [
            { id: 'c1', type: 'function', function: { name: 'look_up', arguments: '{}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'x' },
      ],
      tools: [lookUp],
    });
    expect(JSON.stringify(sent?.body)).not.toMatch(/mime_type|annotations|"cache"|reasoning/);
    const fields = ['max_completion_tokens', 'messages', 'model', 'tools'];
    expect(Object.keys(sent?.body ?? {}).toSorted()).toEqual(fields);
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
    expect(JSON.stringify(sent?.body)).not.toContain('tool_calls');
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
    [
      'messages.0.tool_calls.0.extra_content',
      {
        messages: [
          {
            role: 'assistant',
            tool_calls: [
              {
                id: 'c',
                type: 'function',
                function: { name: 'f', arguments: '{}' },
                extra_content: 'x',
              },
            ],
          },
        ],
      },
      'must be an object',
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
    expect(await chatsOf(gateway, clients.caller)).toEqual([]);
  });
});
