/**
 * Reasoning on every chat endpoint: requested by effort or budget, returned with its signatures,
 * and accepted again.
 */
import type { ChatCompletionMessageParam } from 'openai/resources';
import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

/** Fields of a request that the types of the client do not know. */
const withExtra = <Request extends object>(request: Request, extra: object): Request => ({
  ...request,
  ...extra,
});
const sentTo = async (match: string): Promise<Record<string, unknown>[]> =>
  (await gateway.sandbox.chatRequests(match)).map(({ body }) => body);

const look = {
  name: 'look_up',
  parameters: { type: 'object', properties: { place: { type: 'string' } } },
};
const completionTool = { type: 'function' as const, function: look };
const responseTool = { type: 'function' as const, strict: false, ...look };
const messageTool = {
  name: look.name,
  input_schema: { ...look.parameters, type: 'object' as const },
};

describe('a reasoning effort', () => {
  it.each([
    [
      'claude-sonnet-5',
      'high',
      { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    ],
    [
      'claude-fable-5-2',
      'minimal',
      { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
    ],
    ['claude-haiku-4-5', 'medium', { thinking: { type: 'enabled', budget_tokens: 8192 } }],
    ['gpt-5-mini', 'high', { reasoning_effort: 'high' }],
  ] as const)('sets the reasoning of %s to %s', async (model, effort, fields) => {
    const messages = say(`effort of ${model}`);
    const plain = { model, messages };
    await clients.openai.chat.completions.create({ ...plain, reasoning_effort: effort });
    await clients.openai.chat.completions.create(withExtra(plain, { reasoning: { effort } }));
    await clients.openai.responses.create({ model, input: messages, reasoning: { effort } });
    expect(await sentTo(`effort of ${model}`)).toMatchObject([fields, fields, fields]);
  });

  it('of none is rejected by a model that always reasons', async () => {
    const none = { messages: say('x'), reasoning_effort: 'none' as const };
    const request = { ...none, model: 'claude-fable-5-2' };
    await expect(clients.openai.chat.completions.create(request)).rejects.toMatchObject({
      status: 400,
      code: 'UNSUPPORTED_PARAMETER',
      param: 'reasoning_effort',
    });
    await clients.openai.chat.completions.create({ ...request, model: 'claude-sonnet-5' });
  });
});

describe('a reasoning budget', () => {
  it.each([
    ['claude-haiku-4-5', { thinking: { type: 'enabled', budget_tokens: 5000 } }],
    ['claude-sonnet-5', { thinking: { type: 'adaptive' }, output_config: { effort: 'medium' } }],
    ['gpt-5-mini', { reasoning_effort: 'medium' }],
  ])('takes effect on %s', async (model, fields) => {
    const budget = { type: 'enabled' as const, budget_tokens: 5000 };
    const messages = say(`budget of ${model}`);
    await clients.anthropic.messages.create({
      model,
      max_tokens: 6000,
      messages,
      thinking: budget,
    });
    await clients.openai.chat.completions.create(
      withExtra({ model, messages }, { thinking: budget }),
    );
    await clients.openai.chat.completions.create(
      withExtra({ model, messages }, { reasoning: { max_tokens: 5000 } }),
    );
    expect(await sentTo(`budget of ${model}`)).toMatchObject([fields, fields, fields]);
  });

  it('is rejected by a model without reasoning, and if it is not smaller than max_tokens', async () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 2000 };
    const request = { model: 'gpt-4o', max_tokens: 3000, messages: say('x'), thinking };
    await expect(clients.anthropic.messages.create(request)).rejects.toMatchObject({ status: 400 });
    await expect(
      clients.anthropic.messages.create({
        ...request,
        model: 'claude-haiku-4-5',
        max_tokens: 2000,
      }),
    ).rejects.toThrow('thinking.budget_tokens: must be less than max_tokens');
    await clients.anthropic.messages.create({ ...request, thinking: { type: 'adaptive' } });
  });

  it('is not derived from the effort in Anthropic’s own field', async () => {
    const output_config = { effort: 'low' as const };
    const request = { model: 'claude-sonnet-5', max_tokens: 50, messages: say('effort alone') };
    await clients.anthropic.messages.create({ ...request, output_config });
    const [sent] = await sentTo('effort alone');
    expect(sent).toMatchObject({ output_config });
    expect(sent).not.toHaveProperty('thinking');
  });
});

describe('reasoning of Claude', () => {
  const thought = expect.stringMatching(/^I think about:/);
  const content = [
    { type: 'thinking', thinking: thought, signature: expect.stringMatching(/^sig_/) },
    { type: 'tool_use' },
  ];
  /** Checks that the last request to the provider has the reasoning of its earlier response. */
  async function expectReturned(match: string): Promise<void> {
    expect((await sentTo(match)).at(-1)?.['messages']).toMatchObject([{}, { content }, {}]);
  }

  it.each([false, true])(
    'is returned and accepted by chat completions (streamed: %s)',
    async (stream) => {
      const messages: ChatCompletionMessageParam[] = say('thoughts in completions');
      const request = {
        model: 'claude-sonnet-5',
        messages,
        tools: [completionTool],
        reasoning_effort: 'low' as const,
      };
      const message = stream
        ? await clients.openai.chat.completions.stream(request).finalMessage()
        : (await clients.openai.chat.completions.create(request)).choices[0]?.message;
      expect(message).toMatchObject({ reasoning_content: thought });
      const [call] = message?.tool_calls ?? [];
      if (!message || !call) throw new Error('a tool was called');
      messages.push(message, { role: 'tool', tool_call_id: call.id, content: 'deep' });
      await clients.openai.chat.completions.create(request);
      await expectReturned('thoughts in completions');
    },
  );

  it.each([false, true])('is returned and accepted by responses (streamed: %s)', async (stream) => {
    const input: ResponseInputItem[] = say('thoughts in responses');
    const request = {
      model: 'claude-sonnet-5',
      input,
      tools: [responseTool],
      reasoning: { effort: 'low' as const },
      store: false,
    };
    const response = stream
      ? await clients.openai.responses.stream({ ...request, stream: true }).finalResponse()
      : await clients.openai.responses.create(request);
    expect(response.output).toMatchObject([
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: thought }],
        encrypted_content: expect.any(String),
      },
      { type: 'function_call' },
    ]);
    const [, call] = response.output;
    if (call?.type !== 'function_call') throw new Error('a tool was called');
    input.push(...(response.output as ResponseInputItem[]), {
      type: 'function_call_output',
      call_id: call.call_id,
      output: 'deep',
    });
    await clients.openai.responses.create(request);
    await expectReturned('thoughts in responses');
  });

  it.each([false, true])('is returned and accepted by messages (streamed: %s)', async (stream) => {
    const request = {
      model: 'claude-haiku-4-5',
      max_tokens: 4000,
      messages: say('thoughts in messages'),
      tools: [messageTool],
      thinking: { type: 'enabled' as const, budget_tokens: 2000 },
    };
    const message = stream
      ? await clients.anthropic.messages.stream(request).finalMessage()
      : await clients.anthropic.messages.create(request);
    expect(message.content).toMatchObject(content);
    const [, call] = message.content;
    if (call?.type !== 'tool_use') throw new Error('a tool was called');
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: 'deep' };
    const last = await clients.anthropic.messages.create({
      ...request,
      messages: [
        ...request.messages,
        { role: 'assistant', content: message.content },
        { role: 'user', content: [result] },
      ],
    });
    expect(last.content.at(-1)).toMatchObject({ text: 'The tool said: deep' });
  });

  it('that a client dropped does not break a tool loop with a budget', async () => {
    const call = {
      id: 'c1',
      type: 'function' as const,
      function: { name: 'look_up', arguments: '{}' },
    };
    const answer = await clients.openai.chat.completions.create({
      model: 'claude-haiku-4-5',
      reasoning_effort: 'high',
      tools: [completionTool],
      messages: [
        ...say('thoughts lost'),
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c1', content: 'deep' },
      ],
    });
    expect(answer.choices[0]?.message.content).toBe('The tool said: deep');
  });
});

describe('reasoning of a model with OpenAI’s protocol', () => {
  it('is returned by every endpoint, and accepted back by the provider', async () => {
    const model = 'deepseek-flash';
    const messages = say('open thoughts');
    const text = expect.stringMatching(/^I think about: open thoughts/);
    const completion = await clients.openai.chat.completions.create({ model, messages });
    expect(completion.choices[0]?.message).toMatchObject({ reasoning_content: text });
    const response = await clients.openai.responses.create({ model, input: messages });
    expect(response.output[0]).toMatchObject({ type: 'reasoning', summary: [{ text }] });
    const request = { model, max_tokens: 100, messages, tools: [messageTool] };
    const message = await clients.anthropic.messages.create(request);
    expect(message.content[0]).toMatchObject({ type: 'thinking', thinking: text });
    const [, call] = message.content;
    if (call?.type !== 'tool_use') throw new Error('a tool was called');
    const result = {
      type: 'tool_result' as const,
      tool_use_id: call.id,
      content: 'deep',
      is_error: true,
    };
    const turns = [
      ...messages,
      { role: 'assistant' as const, content: message.content },
      { role: 'user' as const, content: [result] },
    ];
    await clients.anthropic.messages.create({ ...request, messages: turns });
    const sent = (await sentTo('open thoughts')).at(-1);
    expect(sent?.['messages']).toMatchObject([
      {},
      { reasoning_content: text },
      { role: 'tool', content: 'Error: deep' },
    ]);
  });

  it.each([false, true])(
    'is a field of its own if the provider puts it into the content (streamed: %s)',
    async (stream) => {
      const request = {
        model: 'mistral-medium-latest',
        messages: say('thoughts in content'),
        reasoning_effort: 'high' as const,
      };
      const message = stream
        ? await clients.openai.chat.completions.stream(request).finalMessage()
        : (await clients.openai.chat.completions.create(request)).choices[0]?.message;
      expect(message).toMatchObject({
        content: 'You said: thoughts in content',
        reasoning_content: 'I think about: thoughts in content',
      });
    },
  );

  it('counts in usage when its text is hidden', async () => {
    const model = 'gpt-5-mini';
    const messages = say('hidden');
    const effort = 'high' as const;
    const completion = await clients.openai.chat.completions.create({
      model,
      messages,
      reasoning_effort: effort,
    });
    expect(completion.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    const response = await clients.openai.responses.create({
      model,
      input: messages,
      reasoning: { effort },
    });
    expect(response.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  });
});
