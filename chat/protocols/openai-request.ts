/**
 * Translates the internal chat request to OpenAI's chat completions, as each provider requires it.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import type { ChatBody, ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import { getEffortForBudget } from './anthropic-thinking.ts';
import { unsupportedField, type ChatCall } from './protocol.ts';

/** Differences between a provider's API and OpenAI's. */
interface Dialect {
  /**
   * Field for the token limit of an answer. OpenAI's reasoning models reject `max_tokens`; many
   * other providers accept only `max_tokens`.
   */
  limitField: 'max_tokens' | 'max_completion_tokens';
  /** True if the provider reports the usage of a stream only on request. */
  mustRequestUsage: boolean;
  /**
   * Provider's names of fields, by the internal names. Contains only the fields whose names differ.
   */
  providerFieldNames: Readonly<Record<string, string>>;
  /**
   * Handling of reasoning from earlier answers. `dropped`: not sent; `accepted`: sent; `required`:
   * sent, or an empty string if there is none, because the provider rejects tool calls without
   * reasoning.
   */
  reasoning: 'dropped' | 'accepted' | 'required';
  /** True if tool calls of the provider contain thought signatures. */
  hasSignatures: boolean;
  /** True if the provider accepts `top_k`. */
  acceptsTopK: boolean;
}

const defaultDialect: Dialect = {
  limitField: 'max_tokens',
  mustRequestUsage: true,
  providerFieldNames: {},
  reasoning: 'dropped',
  hasSignatures: false,
  acceptsTopK: false,
};
const completionLimitDialect: Dialect = { ...defaultDialect, limitField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: completionLimitDialect,
  xai: completionLimitDialect,
  groq: completionLimitDialect,
  cerebras: completionLimitDialect,
  mistral: {
    ...defaultDialect,
    mustRequestUsage: false,
    providerFieldNames: { seed: 'random_seed' },
  },
  google: { ...defaultDialect, hasSignatures: true },
  deepseek: { ...defaultDialect, reasoning: 'required' },
  moonshotai: { ...defaultDialect, reasoning: 'required' },
  xiaomi: { ...defaultDialect, reasoning: 'required' },
  zai: { ...defaultDialect, reasoning: 'accepted' },
  together: { ...defaultDialect, acceptsTopK: true },
};

function getDialect(model: ChatModel): Dialect {
  return dialects[model.provider] ?? defaultDialect;
}

/**
 * Adds the token limit of the answer to a request. With `prediction`, OpenAI accepts only
 * `max_tokens` (source: OpenAI's guide to Predicted Outputs, limitations).
 */
export function addOpenaiLimit(
  fields: Record<string, unknown>,
  { model, answerTokens }: { model: ChatModel; answerTokens: number },
): Record<string, unknown> {
  const isPredicted = model.provider === 'openai' && fields['prediction'] !== undefined;
  const limitField = isPredicted ? 'max_tokens' : getDialect(model).limitField;
  return { ...fields, [limitField]: answerTokens };
}

/**
 * Translates a request for a provider with OpenAI's protocol.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function encodeOpenai({ model, body, stream }: ChatCall): Record<string, unknown> {
  const dialect = getDialect(model);
  const { messages, tools, thinking: _, cache_control: __, ...options } = body;
  if (options.top_k !== undefined && !dialect.acceptsTopK) {
    throw unsupportedField('top_k', 'this model does not support it');
  }
  const request: Record<string, unknown> = {
    model: model.upstreamModel,
    messages: toMessages(model, messages),
    ...(tools && { tools: tools.map(({ cache_control: ___, ...tool }) => tool) }),
    ...toEffort(model, body),
  };
  for (const [field, value] of Object.entries(options)) {
    request[dialect.providerFieldNames[field] ?? field] = value;
  }
  if (stream) {
    request['stream'] = true;
    // The price could only be estimated if the stream reported no usage.
    if (dialect.mustRequestUsage) request['stream_options'] = { include_usage: true };
  }
  return request;
}

/**
 * Returns the effort that corresponds to the requested reasoning budget; an empty object if no
 * budget is requested.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
function toEffort(model: ChatModel, { thinking }: ChatBody): { reasoning_effort?: string } {
  if (thinking?.type !== 'enabled') return {};
  if (!model.reasoning) throw unsupportedField('thinking', 'this model does not reason');
  return { reasoning_effort: getEffortForBudget(thinking.budget_tokens) };
}

function toMessages(model: ChatModel, messages: readonly ChatMessage[]): unknown[] {
  const sentMessages: unknown[] = [];
  let pictures: unknown[] = [];
  /**
   * Adds the pictures of tool results as a user message, because a tool result may contain only
   * text.
   */
  const addPictures = (): void => {
    if (pictures.length > 0) sentMessages.push({ role: 'user', content: pictures });
    pictures = [];
  };
  for (const [index, message] of messages.entries()) {
    const { content } = message;
    const parts = Array.isArray(content) ? content : [];
    const path = `messages.${index}.content`;
    if (message.role === 'tool') {
      const images = parts.filter(({ type }) => type === 'image_url');
      pictures.push(...images.map((image) => toPart(image, path)));
      sentMessages.push(toToolResult(message));
    } else {
      addPictures();
      const convertedContent = Array.isArray(content)
        ? parts.map((part) => toPart(part, path))
        : content;
      sentMessages.push(toMessage(model, message, convertedContent));
    }
  }
  addPictures();
  return sentMessages;
}

function toToolResult({ content, tool_call_id, is_error: isError }: ChatMessage): unknown {
  const parts = Array.isArray(content) ? content : [];
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const result = Array.isArray(content) ? text : (content ?? '');
  return { role: 'tool', tool_call_id, content: isError ? `Error: ${result}` : result };
}

function toPart(partWithMarker: ContentPart, path: string): unknown {
  const { cache_control: _, ...part } = partWithMarker;
  if (part.type === 'file' && part.file.file_url !== undefined) {
    throw unsupportedField(path, 'this model accepts documents only as data, not by URL');
  }
  return part;
}

function toMessage(model: ChatModel, message: ChatMessage, content: unknown): unknown {
  const { role, name, refusal, tool_calls: calls, extra_content: extra } = message;
  const { reasoning, hasSignatures } = getDialect(model);
  const thoughts = message.reasoning_content ?? (reasoning === 'required' ? '' : undefined);
  const isReasoningSent = role === 'assistant' && model.reasoning && reasoning !== 'dropped';
  // JSON omits undefined fields.
  return {
    role,
    content,
    name,
    refusal,
    tool_calls: calls?.map((call, index) => toToolCall(model, call, index)),
    extra_content: hasSignatures ? extra : undefined,
    reasoning_content: isReasoningSent ? thoughts : undefined,
  };
}

/**
 * Placeholder that Google documents for tool calls without a thought signature: tool calls by
 * another model, and tool calls whose signature a client has dropped. Gemini 3 and later models
 * reject a message whose first call has no signature.
 */
const placeholderSignature = { google: { thought_signature: 'skip_thought_signature_validator' } };

function toToolCall(model: ChatModel, call: ToolCall, index: number): unknown {
  const { extra_content: extra, cache_control: _, ...fields } = call;
  if (!getDialect(model).hasSignatures) return fields;
  const isNeeded = index === 0 && !model.upstreamModel.startsWith('gemini-2');
  const content = extra ?? (isNeeded ? placeholderSignature : null);
  return content ? { ...fields, extra_content: content } : fields;
}
