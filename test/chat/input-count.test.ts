/**
 * Tokens of a chat: the count of the input includes every field that is sent, so a usage report
 * above its maximum is false, and is limited to it.
 */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  calculateUsage,
  calculateChatPrice,
  type TokenUsage,
  type ChatTokens,
} from '../../chat/bill.ts';
import type { ChatBody } from '../../chat/chat-body.ts';
import type { ChatCandidate } from '../../chat/candidates.ts';
import { estimateInput, countMaximumTokens } from '../../chat/input-count.ts';
import { anthropicProtocol, openaiProtocol } from '../../chat/protocols/chat-protocols.ts';
import { parseAnthropicUsage } from '../../chat/protocols/anthropic-answer.ts';
import { parseOpenaiUsage } from '../../chat/protocols/openai-answer.ts';
import { chatModels } from '../../chat/models.ts';

/**
 * Keys of values that are not text of the input: enumerations, identifiers, and media, which have
 * rules of their own.
 */
const notText = new Set(
  'role path type detail format url data file_data user metadata prompt_cache_key safety_identifier'.split(
    ' ',
  ),
);

/** Adds up the UTF-8 bytes of all texts in a value. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce(
    (sum, [name, each]) => sum + (notText.has(name) ? 0 : textBytes(each)),
    0,
  );
}

const text = fc.string({ unit: 'grapheme', maxLength: 300 });
const json = fc.dictionary(fc.string({ maxLength: 8 }), text, {
  maxKeys: 3,
  noNullPrototype: true,
});
const path = fc.constant('messages.0');
const part = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text, path }),
  fc.record({
    type: fc.constant('file' as const),
    file: fc.record({ file_data: text, filename: text }),
    path,
  }),
);
const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text }),
  fc.record({ type: fc.constant('refusal' as const), refusal: text }),
  fc.record({
    type: fc.constant('thought' as const),
    text,
    signature: fc.constant(''),
    data: text,
    provider: fc.constant(''),
  }),
  fc.record({
    id: text,
    type: fc.constant('function' as const),
    function: fc.record({ name: text, arguments: text }),
  }),
);
const anyContent = fc.oneof(text, fc.array(part, { maxLength: 3 }));
const anyMessage = fc.oneof(
  fc.record(
    {
      role: fc.constantFrom('system' as const, 'user' as const),
      path,
      content: anyContent,
      name: text,
    },
    { requiredKeys: ['role', 'path', 'content'] },
  ),
  fc.record({ role: fc.constant('tool' as const), path, content: anyContent, tool_call_id: text }),
  fc.record(
    {
      role: fc.constant('assistant' as const),
      path,
      blocks: fc.array(block, { maxLength: 3 }),
      name: text,
    },
    { requiredKeys: ['role', 'path', 'blocks'] },
  ),
);
const body: fc.Arbitrary<ChatBody> = fc.record(
  {
    messages: fc.array(anyMessage, { minLength: 1, maxLength: 3 }),
    stop: fc.oneof(text, fc.array(text, { maxLength: 2 })),
    tools: fc.array(
      fc.record({
        type: fc.constant('function' as const),
        function: fc.record({ name: text, description: text, parameters: json }),
      }),
      { maxLength: 2 },
    ),
    response_format: fc.record({ type: fc.constant('json_schema'), json_schema: json }),
    user: text,
    metadata: json,
    prediction: json,
    prompt_cache_key: text,
    safety_identifier: text,
  },
  { requiredKeys: ['messages'] },
);

/** Estimates tokens as docs/chat.md says: a quarter of the ASCII characters, at least. */
const leastTokens = (value: unknown): number => Math.floor(textBytes(value) / 8);

const openaiModel = chatModels.find(({ protocol }) => protocol === 'openai');
const anthropicModel = chatModels.find(({ protocol }) => protocol === 'anthropic');
if (!openaiModel || !anthropicModel) throw new Error('the catalog has no model of a protocol');
const protocols = [
  [openaiProtocol, openaiModel],
  [anthropicProtocol, anthropicModel],
] as const;

it('the count includes the text of every field', () => {
  fc.assert(
    fc.property(body, (request) => {
      expect(estimateInput(request).tokens).toBeGreaterThanOrEqual(leastTokens(request));
    }),
    { numRuns: 2000 },
  );
});

it.each(protocols)(
  'the token limit of an input is at least one token per byte that is sent',
  (protocol, model) => {
    fc.assert(
      fc.property(body, fc.boolean(), (request, stream) => {
        let fields: Record<string, unknown>;
        try {
          fields = protocol.encode({ model, body: request, stream });
        } catch {
          // The protocol has no counterpart for a field, so nothing is sent.
          return;
        }
        const bound = countMaximumTokens(JSON.stringify(fields), estimateInput(request));
        expect(bound).toBeGreaterThanOrEqual(textBytes(fields));
      }),
      { numRuns: 1000 },
    );
  },
);

const long = 'x'.repeat(1_000_000);
it.each<[string, ChatBody['messages'][number]]>([
  ['refusal', { role: 'assistant', path: '', blocks: [{ type: 'refusal', refusal: long }] }],
  ['name', { role: 'user', path: '', content: '', name: long }],
  ['id', { role: 'tool', path: '', content: '', tool_call_id: long }],
])('the count includes a %s of a million characters', (_field, message) => {
  expect(estimateInput({ messages: [message] }).tokens).toBeGreaterThanOrEqual(long.length / 4);
});

it.each([
  ['by URL', { file_url: 'https://example.com/long.pdf' }, 3000],
  ['of 500 bytes', { file_data: `data:application/pdf;base64,${'x'.repeat(640)}` }, 3000],
  ['of 1 MB', { file_data: 'x'.repeat(1_280_000) }, 20_000],
])('the count of a document %s is that of two pages or more', (_name, file, tokens) => {
  const content = [{ type: 'file' as const, file, path: '' }];
  const messages = [{ role: 'user' as const, path: '', content }];
  // Four tokens are those of the message.
  expect(estimateInput({ messages }).tokens).toBe(tokens + 4);
});

const sonnet = chatModels.find(({ id }) => id === 'claude-sonnet-5');
const audioModel = chatModels.find(({ cost }) => cost.audioInputUsdPerMillion !== undefined);
if (!sonnet || !audioModel) throw new Error('the catalog has no model with cache or audio prices');
const tokenNumber = fc.oneof(
  fc.nat(20_000),
  fc.constantFrom(0, -1, 0.5, 1e15, Number.MAX_SAFE_INTEGER, 1e300, NaN, '7', null, undefined),
);

const reportedNumbers =
  'prompt_tokens completion_tokens total_tokens input_tokens output_tokens cached_tokens cache_read_input_tokens cache_creation_input_tokens audio_tokens reasoning_tokens'.split(
    ' ',
  );

describe.each([sonnet, audioModel])('any report of usage of $id', (model) => {
  const usageMax = {
    inputTokens: 10_000,
    outputTokens: 1000,
    cacheWriteTokens: 5000,
    audioInputTokens: 10_000,
    cachedInputTokens: 0,
    reasoningTokens: 0,
  };
  const counted = 500;
  const audioInput = model === audioModel ? 100 : 0;
  const tokens = { input: 2000, audioInput, answers: 1 } as ChatTokens;
  const price = (usage: TokenUsage) => calculateChatPrice({ ...model, book: null }, usage, 0.01);

  it('is limited number by number, and makes no chat cheaper than if all input were cached', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom(...reportedNumbers), tokenNumber, { noNullPrototype: true }),
        fc.boolean(),
        fc.boolean(),
        (fields, isAnthropic, final) => {
          const details = { prompt_tokens_details: fields, completion_tokens_details: fields };
          const report = isAnthropic
            ? parseAnthropicUsage(fields)
            : (parseOpenaiUsage({ ...fields, ...details }) ?? {});
          const usage = calculateUsage({
            candidate: { model, tokens } as ChatCandidate,
            request: { body: '', usageMax },
            mayBeBilled: true,
            hasDelivered: true,
            outputTokens: counted,
            reported: { ...report, final },
          });
          const { inputTokens, outputTokens } = usage;
          const { audioInputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = usage;
          const isInputReported =
            report.inputTokens !== undefined && (final || report.inputTokens > 0);
          const input = isInputReported ? report.inputTokens : tokens.input;
          expect(inputTokens).toBe(Math.min(input ?? 0, usageMax.inputTokens));
          const output = final
            ? (report.outputTokens ?? counted)
            : Math.max(report.outputTokens ?? 0, counted);
          expect(outputTokens).toBe(Math.min(output, usageMax.outputTokens));
          const parts = audioInputTokens + cachedInputTokens + cacheWriteTokens;
          expect(parts).toBeLessThanOrEqual(inputTokens);
          for (const number of Object.values(usage)) expect(number).toBeGreaterThanOrEqual(0);
          const allCached = { inputTokens, cachedInputTokens: inputTokens, outputTokens };
          expect(price(usage)).toBeGreaterThanOrEqual(price(allCached));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
