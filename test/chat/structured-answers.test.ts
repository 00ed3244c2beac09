/**
 * Structured answers of models with Anthropic’s protocol, by the model’s own format or by a forced
 * tool call.
 */
import type { ChatCompletionCreateParamsNonStreaming } from 'openai/resources';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

const schema = {
  type: 'object',
  properties: { place: { type: 'string', maxLength: 20 }, height: { type: 'number', minimum: 2 } },
  required: ['place', 'height'],
  additionalProperties: false,
};
const bySchema = (strict: boolean) => ({
  type: 'json_schema' as const,
  json_schema: { name: 'tide', schema, strict },
});
const ask = (extra: Partial<ChatCompletionCreateParamsNonStreaming>) => ({
  model: 'claude-sonnet-5',
  messages: say('structured tide'),
  ...extra,
});
/** Returns the last request of these tests that the provider received. */
const lastSent = async () => (await gateway.sandbox.chatRequests('structured tide')).at(-1);

describe.each([
  ['claude-sonnet-5', bySchema(true), false],
  ['claude-sonnet-5', bySchema(false), true],
  ['claude-sonnet-5', { type: 'json_object' as const }, true],
  ['MiniMax-M3', bySchema(true), true],
  ['claude-fable-5-2', bySchema(false), false],
])('%s with %o', (model, response_format, isForced) => {
  it.each([false, true])('responds in JSON (streamed: %s)', async (stream) => {
    const completion = await clients.complete(ask({ model, response_format }), stream);
    const [choice] = completion.choices;
    expect(choice).toMatchObject({ finish_reason: 'stop' });
    expect(choice?.message.tool_calls ?? []).toEqual([]);
    expect(JSON.parse(choice?.message.content ?? '')).toEqual(
      response_format.type === 'json_object'
        ? { text: 'structured tide' }
        : { place: 'structured tide', height: isForced ? 2 : 1 },
    );
    expect((await lastSent())?.['tool_choice']).toEqual(
      isForced ? { type: 'tool', name: 'structured_answer' } : undefined,
    );
  });
});

it('a structured answer lets the model call other tools first', async () => {
  const tool = {
    type: 'function' as const,
    function: { name: 'look_up', parameters: { type: 'object' } },
  };
  const request = ask({ response_format: bySchema(false), tools: [tool] });
  const first = await clients.complete(request);
  expect(first.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { tool_calls: [{ function: { name: 'look_up' } }] },
  });
  expect(await lastSent()).toMatchObject({
    tools: [{ name: 'look_up' }, { name: 'structured_answer' }],
  });
});

it('a structured answer is rejected by field name if the model cannot be forced to give one', async () => {
  const request = ask({ model: 'claude-fable-5-2', response_format: { type: 'json_object' } });
  await expect(clients.complete(request)).rejects.toMatchObject({
    code: 'UNSUPPORTED_PARAMETER',
    param: 'response_format',
  });
  for (const extra of [{ n: 2 }, { logprobs: true }, { seed: 5 }, { presence_penalty: 1 }]) {
    await expect(clients.complete(ask(extra))).rejects.toMatchObject({
      code: 'UNSUPPORTED_PARAMETER',
      param: Object.keys(extra)[0],
    });
  }
});
