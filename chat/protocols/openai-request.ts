/** Translates the internal chat request to OpenAI's chat completions, as each provider requires. */
import type { ChatModel } from '../models.ts';
import { callIdRules, type CallIdRule, CallIds } from './call-ids.ts';
import type {
  AssistantMessage,
  ChatMessage,
  ContentPart,
  SystemMessage,
  ToolCall,
  ToolMessage,
  UserMessage,
} from '../chat-body.ts';
import { pickHints, withoutHints } from './hints.ts';
import { toReminder, unsupportedField, type ChatCall } from './protocol.ts';
import { toOpenaiReasoning } from './reasoning-options.ts';

/** Differences between a provider's API and OpenAI's. */
export interface Dialect {
  /**
   * Field for the token limit of an answer. OpenAI's reasoning models reject `max_tokens`; many
   * other providers accept only `max_tokens`.
   */
  limitField: 'max_tokens' | 'max_completion_tokens';
  /** True if the provider reports the usage of a stream only on request. */
  mustRequestUsage: boolean;
  /** Provider's field names by internal name, for the fields whose names differ. */
  fieldNames: Readonly<Record<string, string>>;
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
  callIds: CallIdRule;
  /**
   * Places of system messages: `anywhere`, or only at the `start`, because the templates of many
   * open models reject others (`System message must be at the beginning`).
   */
  systemPlace: 'anywhere' | 'start';
  /** True if the provider rejects a message of the user after the result of a tool. */
  mustAnswerResults: boolean;
  /** True if the provider knows the field `refusal` of earlier answers. */
  hasRefusals: boolean;
}

const defaultDialect: Dialect = {
  limitField: 'max_tokens',
  mustRequestUsage: true,
  fieldNames: {},
  reasoning: 'dropped',
  hasSignatures: false,
  acceptsTopK: false,
  callIds: callIdRules.openai,
  systemPlace: 'anywhere',
  mustAnswerResults: false,
  hasRefusals: false,
};
const completionLimitDialect: Dialect = { ...defaultDialect, limitField: 'max_completion_tokens' };
const dialects: Readonly<Record<string, Dialect>> = {
  openai: { ...completionLimitDialect, hasRefusals: true },
  xai: completionLimitDialect,
  groq: { ...completionLimitDialect, systemPlace: 'start' },
  cerebras: { ...completionLimitDialect, systemPlace: 'start' },
  mistral: {
    ...defaultDialect,
    mustRequestUsage: false,
    fieldNames: { seed: 'random_seed' },
    callIds: callIdRules.mistral,
    // `Unexpected role 'system' after role 'assistant'`, `Unexpected role 'user' after role 'tool'`.
    systemPlace: 'start',
    mustAnswerResults: true,
  },
  google: { ...defaultDialect, hasSignatures: true },
  deepseek: { ...defaultDialect, reasoning: 'required' },
  moonshotai: { ...defaultDialect, reasoning: 'required' },
  xiaomi: { ...defaultDialect, reasoning: 'required' },
  zai: { ...defaultDialect, reasoning: 'accepted' },
  together: { ...defaultDialect, acceptsTopK: true, systemPlace: 'start' },
};

/** Returns how the provider of a model differs from OpenAI. */
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
  const { messages, tools, reasoning: _, cache_control: __, ...options } = withoutHints(body);
  if (options.top_k !== undefined && !dialect.acceptsTopK) {
    throw unsupportedField('top_k', 'this model does not support it');
  }
  if (Array.isArray(options.stop) && options.stop.length > stopsMax) {
    throw unsupportedField('stop', `must have at most ${stopsMax} texts with this model`);
  }
  const request: Record<string, unknown> = {
    model: model.upstreamModel,
    messages: toMessages(model, messages),
    ...(tools && { tools: tools.map(({ cache_control: ___, ...tool }) => tool) }),
    ...toOpenaiReasoning(model, body),
  };
  for (const [field, value] of Object.entries({ ...options, ...pickHints(model, body) })) {
    request[dialect.fieldNames[field] ?? field] = value;
  }
  if (stream) {
    request['stream'] = true;
    // The price could only be estimated if the stream reported no usage.
    if (dialect.mustRequestUsage) request['stream_options'] = { include_usage: true };
  }
  return request;
}

/** Maximum number of stop sequences in OpenAI's protocol. */
const stopsMax = 4;

interface WireMessage {
  role: ChatMessage['role'];
  content: unknown;
  [field: string]: unknown;
}

/** Message between the result of a tool and the next message of the user, where one is required. */
const acknowledgement: WireMessage = { role: 'assistant', content: 'Understood.' };

/** Translates the messages of a chat. */
function toMessages(model: ChatModel, messages: readonly ChatMessage[]): WireMessage[] {
  const dialect = getDialect(model);
  const callIds = new CallIds(dialect.callIds);
  const sentMessages: WireMessage[] = [];
  /** Tool calls without a result so far; nothing may stand between them and their results. */
  let openCalls = 0;
  /** System messages and media of results, which follow the last result. */
  let heldBack: WireMessage[] = [];
  const add = (...added: WireMessage[]): void => {
    for (const message of added) {
      const answersResult = message.role === 'user' && sentMessages.at(-1)?.role === 'tool';
      if (answersResult && dialect.mustAnswerResults) sentMessages.push(acknowledgement);
      sentMessages.push(message);
    }
  };
  for (const message of joinSystemPrompt(messages, dialect)) {
    if (message.role === 'tool') {
      openCalls -= 1;
      add(toToolResult(message, callIds));
      heldBack.push(...toMedia(message));
      continue;
    }
    if (message.role === 'system' && openCalls > 0) {
      heldBack.push(toInstructions(message, dialect, sentMessages));
      continue;
    }
    add(...heldBack);
    heldBack = [];
    if (message.role === 'assistant') {
      openCalls = message.blocks.filter(({ type }) => type === 'function').length;
      add(toAnswer(model, message, callIds));
    } else if (message.role === 'system') add(toInstructions(message, dialect, sentMessages));
    else add({ role: 'user', ...toInput(message) });
  }
  add(...heldBack);
  return sentMessages;
}

/** Joins the system messages at the start for a provider that accepts only one. */
function joinSystemPrompt(
  messages: readonly ChatMessage[],
  { systemPlace }: Dialect,
): readonly ChatMessage[] {
  const length = messages.findIndex(({ role }) => role !== 'system');
  const prompt = messages.slice(0, length).filter((message) => message.role === 'system');
  const [first] = prompt;
  if (systemPlace === 'anywhere' || prompt.length < 2 || !first) return messages;
  const content = prompt.map((message) => joinTexts(message.content)).join('\n\n');
  return [{ ...first, content }, ...messages.slice(length)];
}

function toInput({ content, name }: UserMessage | SystemMessage) {
  // JSON omits undefined fields.
  return { content: typeof content === 'string' ? content : content.map(toPart), name };
}

/** Translates a system message; to a message of the user if the provider accepts no other there. */
function toInstructions(
  message: SystemMessage,
  { systemPlace }: Dialect,
  sentMessages: readonly WireMessage[],
): WireMessage {
  if (systemPlace === 'anywhere' || sentMessages.length === 0) {
    return { role: 'system', ...toInput(message) };
  }
  return { role: 'user', content: toReminder(joinTexts(message.content)) };
}

function joinTexts(content: string | readonly ContentPart[]): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

function toToolResult(message: ToolMessage, callIds: CallIds): WireMessage {
  const result = joinTexts(message.content);
  return {
    role: 'tool',
    tool_call_id: callIds.ofResult(message.tool_call_id),
    content: message.is_error ? `Error: ${result}` : result,
  };
}

/** Returns the media of a tool result as a message, because a result may contain only text. */
function toMedia({ content }: ToolMessage): WireMessage[] {
  const parts = typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text');
  return parts.length === 0 ? [] : [{ role: 'user', content: parts.map(toPart) }];
}

function toPart(located: ContentPart): unknown {
  const { cache_control: _, path, ...part } = located;
  if (part.type === 'file' && part.file.file_url !== undefined) {
    throw unsupportedField(path, 'this model accepts documents only as data, not by URL');
  }
  return part;
}

function toAnswer(model: ChatModel, message: AssistantMessage, callIds: CallIds): WireMessage {
  const { blocks, name, extra_content: extra } = message;
  const { hasRefusals, hasSignatures } = getDialect(model);
  const calls = blocks.filter((block) => block.type === 'function');
  const texts = blocks.flatMap((block) => {
    if (block.type === 'text') return [block.text];
    return block.type === 'refusal' && !hasRefusals ? [block.refusal] : [];
  });
  const refusals = blocks.flatMap((block) => (block.type === 'refusal' ? [block.refusal] : []));
  const isWithoutText = texts.length === 0 && (calls.length > 0 || refusals.length > 0);
  // JSON omits undefined fields.
  return {
    role: 'assistant',
    content: isWithoutText ? null : texts.join(''),
    name,
    refusal: hasRefusals && refusals.length > 0 ? refusals.join('') : undefined,
    tool_calls:
      calls.length > 0
        ? calls.map((call, index) => toToolCall(model, call, { index, callIds }))
        : undefined,
    extra_content: hasSignatures ? extra : undefined,
    reasoning_content: toReasoningContent(model, message),
  };
}

/** Returns the reasoning of an answer, without the thoughts of other providers. */
function toReasoningContent(model: ChatModel, { blocks }: AssistantMessage): string | undefined {
  const { reasoning } = getDialect(model);
  if (!model.reasoning || reasoning === 'dropped') return undefined;
  const texts = blocks.flatMap((block) => {
    const isForeign =
      block.type !== 'thought' || (block.provider !== '' && block.provider !== model.provider);
    return isForeign ? [] : [block.text];
  });
  return texts.length === 0 && reasoning !== 'required' ? undefined : texts.join('');
}

/**
 * Placeholder that Google documents for tool calls without a thought signature: tool calls by
 * another model, and tool calls whose signature a client has dropped. Gemini 3 and later models
 * reject a message whose first call has no signature.
 */
const placeholderSignature = { google: { thought_signature: 'skip_thought_signature_validator' } };

function toToolCall(
  model: ChatModel,
  { id, type, function: called, extra_content: extra }: ToolCall,
  { index, callIds }: { index: number; callIds: CallIds },
): unknown {
  const fields = { id: callIds.ofCall(id), type, function: called };
  if (!getDialect(model).hasSignatures) return fields;
  const isNeeded = index === 0 && !model.upstreamModel.startsWith('gemini-2');
  const content = extra ?? (isNeeded ? placeholderSignature : null);
  return content ? { ...fields, extra_content: content } : fields;
}
