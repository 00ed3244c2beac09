/**
 * Internal chat request → OpenAI's chat completions, with the differences of each provider.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import type { ChatBody, ToolCall } from '../chat-body.ts';
import type { ChatCall } from './protocol.ts';

/** Differences of a provider from OpenAI. */
interface Dialect {
  /** Field of the limit of an answer: OpenAI's reasoning models reject `max_tokens`, and many providers know only that. */
  boundField: 'max_tokens' | 'max_completion_tokens';
  /** Whether usage must be requested in a stream; the other providers send it always. */
  asksForUsage: boolean;
  /** Internal names of fields, and the provider's. */
  renamed: Readonly<Record<string, string>>;
  /**
   * Whether the provider takes the reasoning of earlier answers: `required` with tool calls, where a missing one is
   * rejected, so an empty text is sent.
   */
  reasoning: 'dropped' | 'accepted' | 'required';
  /** Whether tool calls carry thought signatures. */
  signatures: boolean;
}

const usual: Dialect = {
  boundField: 'max_tokens',
  asksForUsage: true,
  renamed: {},
  reasoning: 'dropped',
  signatures: false,
};
const modern: Dialect = { ...usual, boundField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: modern,
  xai: modern,
  groq: modern,
  cerebras: modern,
  mistral: { ...usual, asksForUsage: false, renamed: { seed: 'random_seed' } },
  google: { ...usual, signatures: true },
  deepseek: { ...usual, reasoning: 'required' },
  moonshotai: { ...usual, reasoning: 'required' },
  xiaomi: { ...usual, reasoning: 'required' },
  zai: { ...usual, reasoning: 'accepted' },
};

function dialectOf(model: ChatModel): Dialect {
  return dialects[model.provider] ?? usual;
}

/** Returns the field of the request that limits the answer. */
export function openaiBoundField(model: ChatModel): Dialect['boundField'] {
  return dialectOf(model).boundField;
}

/** Translates a request for a provider with OpenAI's protocol. */
export function encodeOpenai({ model, body, stream }: ChatCall): Record<string, unknown> {
  const dialect = dialectOf(model);
  const request: Record<string, unknown> = { model: model.upstreamModel };
  const { messages, ...options } = body;
  request['messages'] = messagesFor(model, messages);
  for (const [field, value] of Object.entries(options)) {
    request[dialect.renamed[field] ?? field] = value;
  }
  if (stream) {
    request['stream'] = true;
    // Without it a stream ends without usage, and its price could only be estimated.
    if (dialect.asksForUsage) request['stream_options'] = { include_usage: true };
  }
  return request;
}

function messagesFor(model: ChatModel, messages: ChatBody['messages']): unknown[] {
  const dialect = dialectOf(model);
  return messages.map((message) => {
    const {
      reasoning_content: reasoning,
      reasoning_details: _,
      extra_content,
      ...fields
    } = message;
    if (message.role !== 'assistant') return fields;
    const calls = message.tool_calls;
    const isReasoningSent =
      dialect.reasoning !== 'dropped' &&
      (reasoning !== undefined || dialect.reasoning === 'required');
    return {
      ...fields,
      ...(calls && { tool_calls: calls.map((call, index) => callFor(model, call, index)) }),
      ...(dialect.signatures && extra_content && { extra_content }),
      ...(model.reasoning && isReasoningSent && { reasoning_content: reasoning ?? '' }),
    };
  });
}

/**
 * Signature that Google documents for calls which another model made, or whose signature a client has dropped. Without
 * one, models from Gemini 3 on reject the first call of a message.
 */
const foreignSignature = { google: { thought_signature: 'skip_thought_signature_validator' } };

function callFor(model: ChatModel, call: ToolCall, index: number): unknown {
  const { extra_content: extra, ...fields } = call;
  if (!dialectOf(model).signatures) return fields;
  const isNeeded = index === 0 && !model.upstreamModel.startsWith('gemini-2');
  const content = extra ?? (isNeeded ? foreignSignature : null);
  return content ? { ...fields, extra_content: content } : fields;
}
