/**
 * Translates the internal chat request to OpenAI's chat completions, as each provider requires it.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import type { ChatBody, ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import { effortOf } from './anthropic-thinking.ts';
import { unsupported, type ChatCall } from './protocol.ts';

/** Differences of a provider from OpenAI. */
interface Dialect {
  /**
   * Field for the token limit of an answer. OpenAI's reasoning models reject `max_tokens`; many
   * other providers accept only `max_tokens`.
   */
  limitField: 'max_tokens' | 'max_completion_tokens';
  /** True if a stream reports usage only if the request asks for it. */
  requestsUsage: boolean;
  /** Fields that have another name at the provider: internal name → the provider's name. */
  renamed: Readonly<Record<string, string>>;
  /**
   * Reasoning of earlier answers is dropped or sent. With `required`, an empty text is sent if
   * there is none, because the provider rejects tool calls without reasoning.
   */
  reasoning: 'dropped' | 'accepted' | 'required';
  /** True if tool calls of the provider contain thought signatures. */
  signatures: boolean;
  /** True if the provider accepts `top_k`. */
  topK: boolean;
}

const defaults: Dialect = {
  limitField: 'max_tokens',
  requestsUsage: true,
  renamed: {},
  reasoning: 'dropped',
  signatures: false,
  topK: false,
};
const modern: Dialect = { ...defaults, limitField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: modern,
  xai: modern,
  groq: modern,
  cerebras: modern,
  mistral: { ...defaults, requestsUsage: false, renamed: { seed: 'random_seed' } },
  google: { ...defaults, signatures: true },
  deepseek: { ...defaults, reasoning: 'required' },
  moonshotai: { ...defaults, reasoning: 'required' },
  xiaomi: { ...defaults, reasoning: 'required' },
  zai: { ...defaults, reasoning: 'accepted' },
  together: { ...defaults, topK: true },
};

function dialectOf(model: ChatModel): Dialect {
  return dialects[model.provider] ?? defaults;
}

/** Adds the token limit of the answer to a request. */
export function limitOpenai(
  fields: Record<string, unknown>,
  { model, answerTokens }: { model: ChatModel; answerTokens: number },
): Record<string, unknown> {
  return { ...fields, [dialectOf(model).limitField]: answerTokens };
}

/**
 * Translates a request for a provider with OpenAI's protocol.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function encodeOpenai({ model, body, stream }: ChatCall): Record<string, unknown> {
  const dialect = dialectOf(model);
  const { messages, tools, thinking: _, cache_control: __, ...options } = body;
  if (options.top_k !== undefined && !dialect.topK) {
    throw unsupported('top_k', 'this model does not support it');
  }
  const request: Record<string, unknown> = {
    model: model.upstreamModel,
    messages: messagesFor(model, messages),
    ...(tools && { tools: tools.map(({ cache_control: ___, ...tool }) => tool) }),
    ...effortFor(model, body),
  };
  for (const [field, value] of Object.entries(options)) {
    request[dialect.renamed[field] ?? field] = value;
  }
  if (stream) {
    request['stream'] = true;
    // Without usage, the price could only be estimated.
    if (dialect.requestsUsage) request['stream_options'] = { include_usage: true };
  }
  return request;
}

/**
 * Returns the effort that corresponds to the requested reasoning budget; empty without a budget.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
function effortFor(model: ChatModel, { thinking }: ChatBody): { reasoning_effort?: string } {
  if (thinking?.type !== 'enabled') return {};
  if (!model.reasoning) throw unsupported('thinking', 'this model does not reason');
  return { reasoning_effort: effortOf(thinking.budget_tokens) };
}

function messagesFor(model: ChatModel, messages: readonly ChatMessage[]): unknown[] {
  const sent: unknown[] = [];
  let pictures: unknown[] = [];
  /**
   * Adds the pictures of tool results as a user message, because a tool result may only be text.
   */
  const addPictures = (): void => {
    if (pictures.length > 0) sent.push({ role: 'user', content: pictures });
    pictures = [];
  };
  for (const [index, message] of messages.entries()) {
    const { content } = message;
    const parts = Array.isArray(content) ? content : [];
    const path = `messages.${index}.content`;
    if (message.role === 'tool') {
      const images = parts.filter(({ type }) => type === 'image_url');
      pictures.push(...images.map((image) => partFor(image, path)));
      sent.push(resultFor(message));
    } else {
      addPictures();
      const own = Array.isArray(content) ? parts.map((part) => partFor(part, path)) : content;
      sent.push(messageFor(model, message, own));
    }
  }
  addPictures();
  return sent;
}

function resultFor({ content, tool_call_id, is_error: isError }: ChatMessage): unknown {
  const parts = Array.isArray(content) ? content : [];
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const result = Array.isArray(content) ? text : (content ?? '');
  return { role: 'tool', tool_call_id, content: isError ? `Error: ${result}` : result };
}

function partFor(marked: ContentPart, path: string): unknown {
  const { cache_control: _, ...part } = marked;
  if (part.type === 'file' && part.file.file_url !== undefined) {
    throw unsupported(path, 'this model accepts documents only as data, not by URL');
  }
  return part;
}

function messageFor(model: ChatModel, message: ChatMessage, content: unknown): unknown {
  const { role, name, refusal, tool_calls: calls, extra_content: extra } = message;
  const { reasoning, signatures } = dialectOf(model);
  const thoughts = message.reasoning_content ?? (reasoning === 'required' ? '' : undefined);
  const isReasoningSent = role === 'assistant' && model.reasoning && reasoning !== 'dropped';
  // JSON omits undefined fields.
  return {
    role,
    content,
    name,
    refusal,
    tool_calls: calls?.map((call, index) => callFor(model, call, index)),
    extra_content: signatures ? extra : undefined,
    reasoning_content: isReasoningSent ? thoughts : undefined,
  };
}

/**
 * Placeholder that Google documents for tool calls without a thought signature: calls of another
 * model, and calls whose signature a client has dropped. Gemini 3 and later models reject a message
 * whose first call has no signature.
 */
const placeholderSignature = { google: { thought_signature: 'skip_thought_signature_validator' } };

function callFor(model: ChatModel, call: ToolCall, index: number): unknown {
  const { extra_content: extra, cache_control: _, ...fields } = call;
  if (!dialectOf(model).signatures) return fields;
  const isNeeded = index === 0 && !model.upstreamModel.startsWith('gemini-2');
  const content = extra ?? (isNeeded ? placeholderSignature : null);
  return content ? { ...fields, extra_content: content } : fields;
}
