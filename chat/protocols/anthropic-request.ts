/**
 * Internal chat request → Anthropic's Messages API. A field without a counterpart is rejected,
 * unless its value has no effect.
 */
import { fieldError } from '../../domain/errors.ts';
import { isRecord, type JsonObject } from '../../domain/json.ts';
import type { ChatBody, ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import { reasoningOf, thoughtsOf } from './anthropic-thinking.ts';
import { unsupported, type ChatCall } from './protocol.ts';
import { answerTool, structuredAnswer, type StructuredAnswer } from './structured-answer.ts';

/** Fields without a counterpart, and their values that have no effect. */
const neutral: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  seed: [],
  logprobs: [false],
  top_logprobs: [0],
  logit_bias: [],
  presence_penalty: [0],
  frequency_penalty: [0],
  prediction: [],
  verbosity: ['medium'],
  // OpenAI stores requests with these fields.
  metadata: [],
  store: [false],
};
/** Hints for OpenAI, which are dropped because they do not change the answer. */
const hints: ReadonlySet<string> = new Set([
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
]);
const mapped: ReadonlySet<string> = new Set([
  'messages',
  'temperature',
  'top_p',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'thinking',
  'top_k',
  'user',
  'cache_control',
]);

/** Rejects fields without a counterpart. @throws GatewayError UNSUPPORTED_PARAMETER */
function refuseForeign(body: ChatBody): void {
  for (const [field, value] of Object.entries(body)) {
    if (mapped.has(field) || hints.has(field)) continue;
    const harmless = neutral[field] ?? [];
    if (!harmless.includes(value)) throw unsupported(field, 'this model does not support it');
  }
}

/**
 * Translates a request to Anthropic’s Messages API.
 * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_REQUEST
 */
export function encodeAnthropic(call: ChatCall): Record<string, unknown> {
  const { model, body, stream } = call;
  refuseForeign(body);
  if (body.temperature !== undefined && body.temperature > 1) {
    throw unsupported('temperature', 'this model accepts at most 1');
  }
  const { thinking, effort } = reasoningOf(call);
  const answer = structuredAnswer(call, thinking !== undefined);
  const system = systemOf(body.messages);
  const config = {
    ...(effort !== undefined && { effort }),
    ...(answer.format && { format: answer.format }),
  };
  return {
    model: model.upstreamModel,
    messages: turnsOf(body.messages),
    ...(system.length > 0 && { system }),
    ...(body.temperature !== undefined && { temperature: body.temperature }),
    ...(body.top_p !== undefined && { top_p: body.top_p }),
    ...(body.top_k !== undefined && { top_k: body.top_k }),
    ...(body.stop !== undefined && { stop_sequences: [body.stop].flat() }),
    ...(body.user !== undefined && { metadata: { user_id: body.user } }),
    ...(thinking && { thinking }),
    ...toolsOf(body, answer),
    ...(Object.keys(config).length > 0 && { output_config: config }),
    ...cacheControlOf(body),
    ...(stream && { stream: true }),
  };
}

function cacheControlOf({ cache_control: mark }: Pick<ContentPart, 'cache_control'>): {
  cache_control?: JsonObject;
} {
  return mark ? { cache_control: mark } : {};
}

function isCached({ content }: ChatMessage): boolean {
  return Array.isArray(content) && content.some((part) => part.cache_control);
}

/** Returns the system messages as one text; as blocks, if a part of them ends a cached prompt. */
function systemOf(messages: readonly ChatMessage[]): string | unknown[] {
  const system = messages.filter(({ role }) => role === 'system');
  if (!system.some(isCached))
    return system.map((message) => textOnly(message, 'messages')).join('\n\n');
  return system.flatMap(({ content }) =>
    partsOf(content).flatMap((part) => blockOf(part, 'messages')),
  );
}

interface Turn {
  role: 'user' | 'assistant';
  content: unknown[];
}

/**
 * Groups messages into turns. Tool results belong to the next user turn, and consecutive messages
 * of one role form one turn, because the roles of turns must alternate.
 */
function turnsOf(messages: readonly ChatMessage[]): Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = blocksOf(message, index);
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else turns.push({ role, content });
  }
  if (turns.length === 0) {
    const message =
      'must contain a user message: this model does not answer to a system message alone';
    throw fieldError('INVALID_REQUEST', 'messages', message);
  }
  return turns;
}

function partsOf(content: ChatMessage['content']): ContentPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
}

function blocksOf(message: ChatMessage, index: number): unknown[] {
  const path = `messages.${index}.content`;
  if (message.role === 'tool') return [toolResultOf(message, path)];
  const blocks = partsOf(message.content).flatMap((part) => blockOf(part, path));
  const calls = (message.tool_calls ?? []).map((call) => toolUse(call, index));
  return [...thoughtsOf(message), ...blocks, ...calls];
}

function toolResultOf(message: ChatMessage, path: string): unknown {
  const { content, tool_call_id: id, is_error: isError } = message;
  const isText = partsOf(content).every(({ type }) => type === 'text');
  return {
    type: 'tool_result',
    tool_use_id: id,
    content: isText
      ? textOnly(message, path)
      : partsOf(content).flatMap((part) => blockOf(part, path)),
    ...(isError === true && { is_error: true }),
    ...cacheControlOf(message),
  };
}

/** Converts a part to blocks. Anthropic rejects empty texts, so they are left out. */
function blockOf(part: ContentPart, path: string): unknown[] {
  const cache = cacheControlOf(part);
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text, ...cache }];
    case 'refusal':
      return part.refusal === '' ? [] : [{ type: 'text', text: part.refusal, ...cache }];
    case 'image_url':
      return [{ type: 'image', source: sourceOf(part.image_url.url, path), ...cache }];
    case 'file': {
      const { file_data: data, file_url: url, filename: title } = part.file;
      const source = sourceOf(data ?? url ?? '', path);
      return [{ type: 'document', source, ...(title !== undefined && { title }), ...cache }];
    }
    case 'input_audio':
      break;
  }
  throw unsupported(path, 'this model does not accept sound');
}

const dataUri = /^data:([\w.+-]+\/[\w.+-]+);base64,/;

function sourceOf(url: string, path: string): unknown {
  const [prefix, mediaType] = dataUri.exec(url.slice(0, 200)) ?? [];
  if (prefix !== undefined) {
    return { type: 'base64', media_type: mediaType, data: url.slice(prefix.length) };
  }
  if (url.startsWith('data:')) throw unsupported(path, 'data URIs must be base64');
  return { type: 'url', url };
}

function toolUse(call: ToolCall, index: number): unknown {
  const path = `messages.${index}.tool_calls`;
  try {
    const input: unknown = JSON.parse(call.function.arguments || '{}');
    if (isRecord(input)) {
      const { id, function: called } = call;
      return { type: 'tool_use', id, name: called.name, input, ...cacheControlOf(call) };
    }
  } catch {
    // Arguments that are not JSON are rejected below, like arguments that are not an object.
  }
  throw unsupported(path, 'arguments must be a JSON object');
}

function textOnly({ content }: ChatMessage, path: string): string {
  return partsOf(content)
    .map((part) => {
      if (part.type === 'text') return part.text;
      throw unsupported(path, 'only text is supported here');
    })
    .join('\n');
}

function toolsOf(body: ChatBody, { tool: answer }: StructuredAnswer): Record<string, unknown> {
  const tools: JsonObject[] = (body.tools ?? []).map((tool) => {
    const { name, description, parameters, strict } = tool.function;
    if (name === answerTool) throw unsupported('tools', `the name ${answerTool} is reserved`);
    return {
      name,
      ...(description !== undefined && { description }),
      input_schema: { type: 'object', ...parameters },
      ...(strict === true && { strict: true }),
      ...cacheControlOf(tool),
    };
  });
  if (answer) {
    const isAlone = tools.length === 0 || body.tool_choice === 'none';
    return {
      tools: [...tools, answer],
      tool_choice: isAlone
        ? { type: 'tool', name: answerTool }
        : { type: 'any', ...singleOf(body) },
    };
  }
  const choice = toolChoiceOf(body);
  return tools.length === 0 ? {} : { tools, ...(choice && { tool_choice: choice }) };
}

function singleOf({ parallel_tool_calls: parallel }: ChatBody): JsonObject {
  return parallel === false ? { disable_parallel_tool_use: true } : {};
}

function toolChoiceOf(body: ChatBody): JsonObject | undefined {
  const { tool_choice: choice } = body;
  const single = singleOf(body);
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...single };
  if (typeof choice === 'object') return { type: 'tool', name: choice.function.name, ...single };
  return body.parallel_tool_calls === false ? { type: 'auto', ...single } : undefined;
}
