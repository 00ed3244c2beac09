/**
 * Encodes requests for Anthropic's Messages API and decodes its answers. Sources: the types of
 * @anthropic-ai/sdk and Anthropic's API reference.
 */
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { errorFromReport } from '../upstream-failures.ts';
import { AnthropicReader } from './anthropic-reader.ts';
import { encodeAnthropic } from './anthropic-request.ts';
import { addAnthropicLimit } from './anthropic-thinking.ts';
import { toFinishReason, parseAnthropicUsage } from './anthropic-usage.ts';
import type { ChatAnswer, ChatProtocol } from './protocol.ts';
import { answerTool } from './structured-answer.ts';

const errorShape = z.object({
  error: z.object({ type: z.string().nullish(), message: z.string().nullish() }),
});

/** Protocol of providers that serve Anthropic's Messages API. */
export const anthropicProtocol: ChatProtocol = {
  path: '/v1/messages',
  headers: (apiKey) => ({ 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }),
  encode: encodeAnthropic,
  withTokenLimit: addAnthropicLimit,
  decode: decodeAnthropic,
  createReader: ({ provider }) => new AnthropicReader(provider),
  toGatewayError({ status, body, retryAfter }) {
    const error = errorShape.safeParse(body).data?.error;
    return errorFromReport(status, {
      message: error?.message ?? '',
      code: error?.type ?? '',
      param: '',
      retryAfter,
    });
  },
};

const messageShape = z.object({
  id: z.string(),
  model: z.string(),
  stop_reason: z.string().nullish(),
  stop_sequence: z.string().nullish(),
  content: z.array(
    z.object({
      type: z.string(),
      text: z.string().optional(),
      thinking: z.string().optional(),
      signature: z.string().optional(),
      data: z.string().optional(),
      id: z.string().optional(),
      name: z.string().optional(),
      input: z.unknown().optional(),
    }),
  ),
  usage: z.record(z.string(), z.unknown()).nullish(),
});
type Block = z.infer<typeof messageShape>['content'][number];

/**
 * Converts content blocks to the fields of a message in OpenAI's format. Thoughts and tool calls
 * contain their places, so that a later request can contain the blocks in this order.
 */
function toMessage(content: readonly Block[], provider: string) {
  const calls: JsonObject[] = [];
  const details: JsonObject[] = [];
  let [text, thoughts, callTexts] = ['', '', ''];
  for (const [index, block] of content.entries()) {
    const { type, thinking = '', signature = '', data = '', id = '', name = '' } = block;
    const place = { index, tool_call_index: calls.length, content_offset: text.length };
    text += block.text ?? '';
    thoughts += thinking;
    if (type === 'thinking') {
      details.push({ type: 'reasoning.text', text: thinking, signature, provider, ...place });
    }
    if (type === 'redacted_thinking') {
      details.push({ type: 'reasoning.encrypted', data, provider, ...place });
    }
    if (type !== 'tool_use' || name === answerTool) continue;
    const json = JSON.stringify(block.input ?? {});
    callTexts += name + json;
    calls.push({
      id,
      type: 'function',
      function: { name, arguments: json },
      content_offset: place.content_offset,
    });
  }
  return { text, thoughts, details, calls, callTexts };
}

/** Parses a response of Anthropic's Messages API. Returns null if its format is unknown. */
function decodeAnthropic(answer: unknown, provider: string): ChatAnswer | null {
  const parsed = messageShape.safeParse(answer);
  if (!parsed.success) return null;
  const { id, model, content, stop_reason: stopReason } = parsed.data;
  const { stop_sequence: stopSequence = null } = parsed.data;
  const structured = content.find(({ name }) => name === answerTool);
  const { thoughts, details, calls, callTexts, text: plainText } = toMessage(content, provider);
  const text = structured ? JSON.stringify(structured.input ?? {}) : plainText;
  const isStructuredAnswer = structured !== undefined && calls.length === 0;
  const finishReason = toFinishReason(stopReason, isStructuredAnswer) ?? 'stop';
  const message = {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    refusal: null,
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const usage = parseAnthropicUsage(parsed.data.usage ?? {});
  const { inputTokens, outputTokens } = usage;
  const isComplete = inputTokens !== undefined && outputTokens !== undefined;
  return {
    completion: {
      id,
      model,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    },
    text,
    finishReason,
    stopSequence,
    usage: isComplete ? { ...usage, inputTokens, outputTokens } : null,
    outputText: text + thoughts + callTexts,
  };
}
