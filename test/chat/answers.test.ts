/**
 * Parts of responses on which clients depend: error codes, ids, stop sequences, counts, and
 * unsupported inputs.
 */
import type { MessageParam } from '@anthropic-ai/sdk/resources/messages';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { readChats, untilAllSettled } from './chat-account.ts';
import { onePixel, say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

describe('an input that exceeds the context', () => {
  it.each([
    ['gpt-4o', 'This model’s maximum context length is 128000 tokens.'],
    ['claude-sonnet-5', 'prompt is too long: 1200000 tokens > 1000000 maximum'],
  ])(
    'of %s returns the error code that clients handle, when the provider reports it',
    async (model, message) => {
      const messages = say(`[[fail:400;message=${message}]] x`);
      await expect(clients.complete({ model, messages })).rejects.toMatchObject({
        status: 400,
        code: 'context_length_exceeded',
      });
      await expect(clients.message({ model, max_tokens: 9, messages })).rejects.toMatchObject({
        status: 400,
        error: { error: { type: 'invalid_request_error', code: 'CONTEXT_LENGTH_EXCEEDED' } },
      });
    },
  );

  it('is rejected before the provider call if it certainly exceeds it', async () => {
    const messages = say('tide '.repeat(128_001));
    await expect(clients.complete({ model: 'gpt-4o', messages })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      message: expect.stringContaining('maximum context length of gpt-4o'),
    });
    await expect(clients.message({ model: 'gpt-4o', max_tokens: 9, messages })).rejects.toThrow(
      'prompt is too long',
    );
    expect(await readChats(gateway, clients.caller)).toEqual([]);
  });
});

it('a response names the model by its gateway id, and its chat can be read by the id of the response', async () => {
  const model = 'groq/openai/gpt-oss-120b';
  const request = { model, messages: say('which model') };
  const whole = await clients.complete(request);
  expect(whole).toMatchObject({ model, id: expect.stringMatching(/^chat_/) });
  const ids = new Set<string>();
  for await (const chunk of await clients.openai.chat.completions.create({
    ...request,
    stream: true,
  })) {
    expect(chunk.model).toBe(model);
    ids.add(chunk.id);
  }
  expect(ids.size).toBe(1);
  const [first] = await untilAllSettled(gateway, clients.caller);
  expect(await gateway.call(`/v1/chats/${whole.id}`, { key: clients.caller.key })).toMatchObject({
    status: 200,
    body: {
      data: {
        id: whole.id,
        type: 'chat',
        model,
        status: 'charged',
        credits: (first?.charged ?? 0) / 1e6,
        inputTokens: whole.usage?.prompt_tokens,
        outputTokens: whole.usage?.completion_tokens,
      },
    },
  });
  const other = await gateway.newCaller({ credits: 1 });
  for (const [id, { key }] of [
    [whole.id, other],
    [`chat_${'0'.repeat(32)}`, clients.caller],
    ['nonsense', clients.caller],
  ] as const) {
    expect((await gateway.call(`/v1/chats/${id}`, { key })).status).toBe(404);
  }
});

describe('a request to Anthropic’s messages endpoint', () => {
  it.each([false, true])('ends at a stop sequence and names it (streamed: %s)', async (stream) => {
    const request = {
      model: 'claude-sonnet-5',
      max_tokens: 50,
      messages: say('one two STOP three'),
      stop_sequences: ['STOP'],
    };
    const message = await clients.message(request, stream);
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'STOP' });
  });

  it('passes top_k, documents by URL, and images and errors in tool results to Claude', async () => {
    const text = (words: string) => ({ type: 'text' as const, text: words });
    const url = { type: 'url' as const, url: 'https://example.com/a.pdf' };
    const picture = { type: 'base64' as const, media_type: 'image/png' as const, data: onePixel };
    const result = {
      type: 'tool_result' as const,
      tool_use_id: 't1',
      is_error: true,
      content: [text('broken'), { type: 'image' as const, source: picture }],
    };
    const use = { type: 'tool_use' as const, id: 't1', name: 'f', input: {} };
    const messages: MessageParam[] = [
      { role: 'user', content: [{ type: 'document', source: url }, text('top k')] },
      { role: 'assistant', content: [use] },
      { role: 'user', content: [result] },
    ];
    const request = { model: 'claude-sonnet-5', max_tokens: 50, messages };
    // The types of the client do not know the field.
    const topK = { top_k: 5 };
    await clients.message({ ...request, ...topK });
    const [sent] = await gateway.sandbox.chatRequests('top k');
    expect(sent).toMatchObject({ top_k: 5, messages });
    await clients.message({ ...request, model: 'gpt-5-mini', messages: messages.slice(1) });
    const [other] = await gateway.sandbox.chatRequests('Error: broken');
    expect(other?.['messages']).toMatchObject([
      { role: 'assistant' },
      { role: 'tool', content: 'Error: broken' },
      { role: 'user', content: [{ type: 'image_url' }] },
    ]);
    await expect(clients.message({ ...request, model: 'gpt-5-mini' })).rejects.toMatchObject({
      status: 400,
      error: { error: { code: 'UNSUPPORTED_PARAMETER' } },
    });
  });

  it('can be counted before it is sent, without a charge', async () => {
    const counted = await clients.anthropic.messages.countTokens({
      model: 'claude-sonnet-5',
      messages: say('eight letters each word'),
    });
    expect(counted).toEqual({ input_tokens: 10 });
    const empty = await gateway.call('/v1/messages/count_tokens', { body: {} });
    expect([empty.status, empty.body.details[0]?.path]).toEqual([400, 'model']);
    await expect(
      clients.anthropic.messages.countTokens({ model: 'nothing', messages: say('x') }),
    ).rejects.toMatchObject({ status: 404 });
    expect(await readChats(gateway, clients.caller)).toEqual([]);
  });
});
