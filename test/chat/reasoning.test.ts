/**
 * Reasoning on every chat endpoint: requested by effort or budget, returned with its signatures,
 * and accepted again.
 */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { say, useClients } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';
import { lookUpFunction, toolLoops } from './tool-loops.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

/** Fields of a request that the types of the client do not know. */
const withExtra = <Request extends object>(request: Request, extra: object): Request => ({
  ...request,
  ...extra,
});
const readSent = (match: string) => gateway.sandbox.chatRequests(match);

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
    await clients.complete({ ...plain, reasoning_effort: effort });
    await clients.complete(withExtra(plain, { reasoning: { effort } }));
    await clients.respond({ model, input: messages, reasoning: { effort } });
    expect(await readSent(`effort of ${model}`)).toMatchObject([fields, fields, fields]);
  });

  it('of none is rejected by a model that always reasons', async () => {
    const none = { messages: say('x'), reasoning_effort: 'none' as const };
    const request = { ...none, model: 'claude-fable-5-2' };
    await expect(clients.complete(request)).rejects.toMatchObject({
      status: 400,
      code: 'UNSUPPORTED_PARAMETER',
      param: 'reasoning_effort',
    });
    await clients.complete({ ...request, model: 'claude-sonnet-5' });
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
    await clients.message({ model, max_tokens: 6000, messages, thinking: budget });
    await clients.complete(withExtra({ model, messages }, { thinking: budget }));
    await clients.complete(withExtra({ model, messages }, { reasoning: { max_tokens: 5000 } }));
    expect(await readSent(`budget of ${model}`)).toMatchObject([fields, fields, fields]);
  });

  it('must be smaller than max_tokens', async () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 2000 };
    const request = { model: 'claude-haiku-4-5', max_tokens: 2000, messages: say('x'), thinking };
    await expect(clients.message(request)).rejects.toThrow(
      'thinking.budget_tokens: must be less than max_tokens',
    );
    await clients.message({ ...request, max_tokens: 3000 });
  });

  it('is not derived from the effort in Anthropic’s own field', async () => {
    const output_config = { effort: 'low' as const };
    const request = { model: 'claude-sonnet-5', max_tokens: 50, messages: say('effort alone') };
    await clients.message({ ...request, output_config });
    const [sent] = await readSent('effort alone');
    expect(sent).toMatchObject({ output_config });
    expect(sent).not.toHaveProperty('thinking');
  });
});

const thought = expect.stringMatching(/^I think about: thoughts/);
const readable = { type: 'thinking', thinking: thought };
const signed = { ...readable, signature: expect.stringMatching(/^sig_/) };
const item = { type: 'reasoning', summary: [{ type: 'summary_text', text: thought }] };
const fromClaude = { content: [signed, { type: 'tool_use' }] };
const fromOpenai = { reasoning_content: thought, tool_calls: [{}] };

/** Endpoint, model, parts of the conversation that the client got, and what the provider gets back. */
const returned: [keyof typeof toolLoops, string, object[], object][] = [
  ['completions', 'claude-sonnet-5', [{ reasoning_content: thought }], fromClaude],
  ['completions', 'deepseek-flash', [{ reasoning_content: thought }], fromOpenai],
  [
    'responses',
    'claude-sonnet-5',
    [{ ...item, encrypted_content: expect.any(String) }, { type: 'function_call' }],
    fromClaude,
  ],
  ['responses', 'deepseek-flash', [item, { type: 'function_call' }], fromOpenai],
  ['messages', 'claude-haiku-4-5', [fromClaude], fromClaude],
  ['messages', 'deepseek-flash', [{ content: [readable, { type: 'tool_use' }] }], fromOpenai],
];

describe.each(returned)('reasoning in %s of %s', (endpoint, model, answer, sent) => {
  it.each([false, true])(
    'is returned, and reaches the provider again (streamed: %s)',
    async (stream) => {
      const question = `thoughts in ${endpoint}`;
      const loop = { model, question, stream, reasons: true };
      const conversation = await toolLoops[endpoint](clients, loop);
      expect(conversation.slice(1, 1 + answer.length)).toMatchObject(answer);
      expect((await readSent(question)).at(-1)?.['messages']).toMatchObject([{}, sent, {}]);
    },
  );
});

it('reasoning of Claude that a client dropped does not break a tool loop with a budget', async () => {
  const call = { id: 'c1', type: 'function' as const };
  const answer = await clients.complete({
    model: 'claude-haiku-4-5',
    reasoning_effort: 'high',
    tools: [lookUpFunction],
    messages: [
      ...say('thoughts lost'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...call, function: { name: 'look_up', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'deep' },
    ],
  });
  expect(answer.choices[0]?.message.content).toBe('The tool said: deep');
});

describe('reasoning of a model that does not reason', () => {
  const model = 'gpt-4.1-mini';
  const messages = say('plain');
  it.each([
    ['/chat', { messages, reasoning_effort: 'high' }, 'reasoning_effort'],
    ['/chat/completions', { messages, reasoning: { effort: 'high' } }, 'reasoning.effort'],
    ['/responses', { input: 'plain', reasoning: { effort: 'high' } }, 'reasoning.effort'],
    [
      '/messages',
      {
        messages,
        max_tokens: 2000,
        thinking: { type: 'adaptive' },
        output_config: { effort: 'high' },
      },
      'output_config.effort',
    ],
  ])('is ignored by name at %s', async (path, body, field) => {
    for (const stream of [false, true]) {
      const sent = { path, body: { ...body, model, stream } };
      const response = await postChat(gateway, gateway.caller, sent);
      expect(await response.text()).toContain('You');
      expect(response.status).toBe(200);
      expect(response.headers.get('x-ignored-fields')).toBe(field);
    }
  });
});

describe('reasoning that the caller excludes', () => {
  it.each([{ reasoning: { effort: 'high', exclude: true } }, { include_reasoning: false }])(
    'is not in the answer: %o',
    async (fields) => {
      for (const stream of [false, true]) {
        const messages = say('excluded');
        const body = { model: 'deepseek-flash', messages, ...fields, stream };
        const response = await postChat(gateway, gateway.caller, {
          path: '/chat/completions',
          body,
        });
        const text = await response.text();
        expect(text).toContain('You');
        expect(text).not.toMatch(
          /I think about|"reasoning(_content|_details)?":|"delta":\{\}[^]*You/,
        );
      }
    },
  );
});

describe('reasoning of a model with OpenAI’s protocol', () => {
  it.each([false, true])(
    'is a field of its own if the provider puts it into the content (streamed: %s)',
    async (stream) => {
      const { choices } = await clients.complete(
        {
          model: 'mistral-medium-latest',
          messages: say('thoughts in content'),
          reasoning_effort: 'high',
        },
        stream,
      );
      expect(choices[0]?.message).toMatchObject({
        content: 'You said: thoughts in content',
        reasoning_content: 'I think about: thoughts in content',
      });
    },
  );

  it('counts in usage when its text is hidden', async () => {
    const model = 'gpt-5-mini';
    const messages = say('hidden');
    const completion = await clients.complete({ model, messages, reasoning_effort: 'high' });
    expect(completion.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    const reasoning = { effort: 'high' as const };
    const response = await clients.respond({ model, input: messages, reasoning });
    expect(response.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  });
});
