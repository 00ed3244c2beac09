/**
 * Prompt caching: the cache mark reaches Anthropic, and cached tokens have their own price and
 * appear in every usage report.
 */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilAllSettled } from './chat-account.ts';
import { useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);

const model = 'claude-opus-4-8';
const wordsMax = 400;
/** Makes a system prompt of 400 sandbox tokens, different for each title. */
const makePrompt = (title: string): string =>
  Array.from({ length: wordsMax }, (_, index) => `${title}${index}`).join(' ');
const marked = (text: string) => ({
  type: 'text' as const,
  text,
  cache_control: { type: 'ephemeral' as const },
});

/** Micro-credits of the model per token. */
const price = { plain: 500, read: 50, written: 625, output: 2500 };

it('cache writes and reads cost the catalog’s prices, with messages whole and streamed', async () => {
  const request = {
    model,
    max_tokens: 100,
    system: [marked(makePrompt('messages'))],
    messages: [{ role: 'user' as const, content: 'one two' }],
  };
  const written = await clients.anthropic.messages.create(request);
  expect(written.usage).toMatchObject({
    input_tokens: 2,
    cache_creation_input_tokens: wordsMax,
    cache_read_input_tokens: 0,
  });
  const events: unknown[] = [];
  const stream = clients.anthropic.messages.stream(request);
  stream.on('streamEvent', (event) => events.push(event));
  const read = await stream.finalMessage();
  const cached = {
    input_tokens: 2,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: wordsMax,
  };
  expect(read.usage).toMatchObject(cached);
  expect(events[0]).toMatchObject({ type: 'message_start', message: { usage: cached } });

  const [first, second] = await untilAllSettled(gateway, clients.caller);
  const rest = 2 * price.plain + 4 * price.output;
  expect(first?.charged).toBe(rest + wordsMax * price.written);
  expect(second?.charged).toBe(rest + wordsMax * price.read);
  const { body } = await gateway.call<{ usage: unknown[] }>('/api/v1/usage', {
    key: clients.caller.key,
  });
  expect(body.usage).toMatchObject([
    { inputTokens: wordsMax + 2, cachedInputTokens: wordsMax },
    { inputTokens: wordsMax + 2, cacheWriteTokens: wordsMax },
  ]);
});

it('cache marks in parts of chat completions work, and usage shows them, whole and streamed', async () => {
  const system = [marked(makePrompt('completions'))];
  const request = {
    model,
    messages: [
      { role: 'system' as const, content: system },
      { role: 'user' as const, content: 'one two' },
    ],
  };
  const whole = await clients.openai.chat.completions.create(request);
  expect(whole.usage).toMatchObject({
    prompt_tokens: wordsMax + 2,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: wordsMax },
  });
  const stream = await clients.openai.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  let usage: unknown;
  for await (const chunk of stream) usage = chunk.usage ?? usage;
  expect(usage).toMatchObject({
    prompt_tokens: wordsMax + 2,
    prompt_tokens_details: { cached_tokens: wordsMax, cache_write_tokens: 0 },
  });
  const [sent] = await gateway.sandbox.chatRequests('completions399');
  expect(sent?.['system']).toEqual(system);
});

it('OpenAI’s cache needs no mark, and the Responses API shows its tokens', async () => {
  const instructions = Array.from({ length: 1500 }, (_, index) => `responses${index}`).join(' ');
  const request = { model: 'gpt-5-mini', instructions, input: 'one two' };
  await clients.openai.responses.create(request);
  const second = await clients.openai.responses.create(request);
  expect(second.usage?.input_tokens_details.cached_tokens).toBe(1500);
  const [full, cached] = await untilAllSettled(gateway, clients.caller);
  expect(cached?.charged).toBeLessThan(full?.charged ?? 0);
});

it('only a request with a cache mark, wherever it is, reserves the price of a cache write', async () => {
  const content = makePrompt('estimate');
  const estimate = async (fields: object): Promise<number> => {
    const body = { model, max_tokens: 10, messages: [{ role: 'user', content }], ...fields };
    const path = '/api/v1/chat/completions/estimate';
    return (await gateway.call<{ data: { most: number } }>(path, { body })).body.data.most;
  };
  const { text: _, type: __, ...mark } = marked('');
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
  const turns = (callMark: object, resultMark: object) => [
    { role: 'user', content },
    { role: 'assistant', tool_calls: [{ ...call, ...callMark }] },
    { role: 'tool', tool_call_id: 'c', content: 'x', ...resultMark },
  ];
  const plain = await estimate({ messages: turns({}, {}) });
  for (const fields of [
    mark,
    { tools: [{ ...call, ...mark }] },
    { messages: [{ role: 'user', content: [marked(content)] }] },
    { messages: turns(mark, {}) },
    { messages: turns({}, mark) },
  ]) {
    expect((await estimate(fields)) / plain, JSON.stringify(fields)).toBeGreaterThan(1.15);
  }
});
