/** OpenAI's request → Anthropic Messages. What has no counterpart is refused, never dropped silently. */
import type { JsonObject } from '../../domain/json.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { ChatBody, ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import type { ChatCall } from './protocol.ts';

/** Fields without a counterpart, and the values that say nothing and so do no harm. */
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
  // These say how OpenAI keeps or caches a request; here there is nothing to keep.
  metadata: [],
  store: [false],
};
/** Taken by no counterpart, but no promise either: hints of OpenAI's own. */
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
  'user',
]);

function unsupported(path: string, message: string): GatewayError {
  return fieldError('UNSUPPORTED_PARAMETER', path, message);
}

/** @throws GatewayError UNSUPPORTED_PARAMETER */
function refuseForeign(body: ChatBody): void {
  for (const [field, value] of Object.entries(body)) {
    if (mapped.has(field) || hints.has(field)) continue;
    const harmless = neutral[field] ?? [];
    if (!harmless.includes(value)) throw unsupported(field, 'this model does not take it');
  }
}

/** Translates a request to Anthropic’s Messages API. @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_REQUEST */
export function encodeAnthropic({ model, body, stream }: ChatCall): Record<string, unknown> {
  refuseForeign(body);
  const system = body.messages.filter(({ role }) => role === 'system').map(textOnly);
  if (body.temperature !== undefined && body.temperature > 1) {
    throw unsupported('temperature', 'this model takes at most 1');
  }
  return {
    model: model.upstreamModel,
    messages: turnsOf(body.messages),
    ...(system.length > 0 && { system: system.join('\n\n') }),
    ...(body.temperature !== undefined && { temperature: body.temperature }),
    ...(body.top_p !== undefined && { top_p: body.top_p }),
    ...(body.stop !== undefined && { stop_sequences: [body.stop].flat() }),
    ...(body.user !== undefined && { metadata: { user_id: body.user } }),
    ...toolsOf(body),
    ...outputConfigOf(body),
    ...(stream && { stream: true }),
  };
}

interface Turn {
  role: 'user' | 'assistant';
  content: unknown[];
}

/** Tool results belong to the next user turn, and turns alternate: neighbours of one role are one turn. */
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

function blocksOf(message: ChatMessage, index: number): unknown[] {
  if (message.role === 'tool') {
    return [
      {
        type: 'tool_result',
        tool_use_id: message.tool_call_id,
        content: textOnly(message, index),
      },
    ];
  }
  const parts: ContentPart[] =
    typeof message.content === 'string'
      ? [{ type: 'text', text: message.content }]
      : (message.content ?? []);
  const blocks = parts.flatMap((part) => blockOf(part, `messages.${index}.content`));
  return [...blocks, ...(message.tool_calls ?? []).map((call) => toolUse(call, index))];
}

/** Anthropic refuses empty texts; they say nothing, so they are left out. */
function blockOf(part: ContentPart, path: string): unknown[] {
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }];
    case 'refusal':
      return part.refusal === '' ? [] : [{ type: 'text', text: part.refusal }];
    case 'image_url':
      return [{ type: 'image', source: sourceOf(part.image_url.url, path) }];
    case 'file':
      return [{ type: 'document', source: sourceOf(part.file.file_data, path) }];
    case 'input_audio':
      break;
  }
  throw unsupported(path, 'this model does not take sound');
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
      return { type: 'tool_use', id: call.id, name: call.function.name, input };
    }
  } catch {
    // Said below: the arguments are the caller's, and this model wants them as an object.
  }
  throw unsupported(path, 'arguments must be a JSON object');
}

function textOnly(message: ChatMessage, index?: number): string {
  if (typeof message.content === 'string') return message.content;
  return (message.content ?? [])
    .map((part) => {
      if (part.type === 'text') return part.text;
      throw unsupported(`messages.${index ?? 0}.content`, 'only text is supported here');
    })
    .join('\n');
}

function toolsOf(body: ChatBody): Record<string, unknown> {
  if (!body.tools || body.tools.length === 0) return {};
  const tools = body.tools.map(({ function: tool }) => ({
    name: tool.name,
    ...(tool.description !== undefined && { description: tool.description }),
    input_schema: { type: 'object', ...tool.parameters },
    ...(tool.strict === true && { strict: true }),
  }));
  const choice = toolChoiceOf(body);
  return { tools, ...(choice === undefined ? {} : { tool_choice: choice }) };
}

function toolChoiceOf({
  tool_choice: choice,
  parallel_tool_calls: parallel,
}: ChatBody): JsonObject | undefined {
  const single = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...single };
  if (typeof choice === 'object') return { type: 'tool', name: choice.function.name, ...single };
  return parallel === false ? { type: 'auto', ...single } : undefined;
}

const efforts: ReadonlySet<string> = new Set(['low', 'medium', 'high', 'xhigh', 'max']);

function outputConfigOf(body: ChatBody): Record<string, unknown> {
  const config: Record<string, unknown> = {};
  const effort = body.reasoning_effort;
  if (effort !== undefined && efforts.has(effort)) config['effort'] = effort;
  else if (effort !== undefined && effort !== 'none' && effort !== 'minimal') {
    throw unsupported('reasoning_effort', 'this model takes low, medium or high');
  }
  const format = body.response_format;
  if (format?.type === 'json_schema') {
    const given = format['json_schema'];
    const schema = isRecord(given) ? given['schema'] : undefined;
    config['format'] = { type: 'json_schema', schema };
  } else if (format !== undefined && format.type !== 'text') {
    throw unsupported('response_format', 'this model takes text and json_schema');
  }
  return Object.keys(config).length > 0 ? { output_config: config } : {};
}
