/** Translates messages of the internal request to Anthropic's turns and content blocks. */
import { fieldError } from '../../domain/errors.ts';
import { isRecord, type JsonObject } from '../../domain/json.ts';
import type { ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import { toThinkingBlocks } from './anthropic-thinking.ts';
import { unsupportedField } from './protocol.ts';

/** Returns the `cache_control` of a part, or an empty object if it has none. */
export function copyCacheControl({ cache_control: marker }: Pick<ContentPart, 'cache_control'>): {
  cache_control?: JsonObject;
} {
  return marker ? { cache_control: marker } : {};
}

function hasCacheControl({ content }: ChatMessage): boolean {
  return Array.isArray(content) && content.some((part) => part.cache_control);
}

/** Joins the system messages to one string, or to blocks if any part has `cache_control`. */
export function joinSystemMessages(messages: readonly ChatMessage[]): string | unknown[] {
  const system = messages.filter(({ role }) => role === 'system');
  if (!system.some(hasCacheControl))
    return system.map((message) => joinTextParts(message, 'messages')).join('\n\n');
  return system.flatMap(({ content }) =>
    toParts(content).flatMap((part) => partToBlocks(part, 'messages')),
  );
}

interface Turn {
  role: 'user' | 'assistant';
  content: unknown[];
}

/**
 * Groups messages into turns. The roles of turns must alternate, so consecutive messages of the
 * same role form one turn. Tool results are part of the user's turn.
 */
export function groupIntoTurns(messages: readonly ChatMessage[]): Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = toBlocks(message, index);
    const lastTurn = turns.at(-1);
    if (lastTurn?.role === role) lastTurn.content.push(...content);
    else turns.push({ role, content });
  }
  if (turns.length === 0) {
    const message = 'must contain a user message: this model does not answer system messages alone';
    throw fieldError('INVALID_REQUEST', 'messages', message);
  }
  return turns;
}

function toParts(content: ChatMessage['content']): ContentPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
}

function toBlocks(message: ChatMessage, index: number): unknown[] {
  const path = `messages.${index}.content`;
  if (message.role === 'tool') return [toToolResult(message, path)];
  const blocks = toParts(message.content).flatMap((part) => partToBlocks(part, path));
  const calls = (message.tool_calls ?? []).map((call) => toToolUse(call, index));
  return [...toThinkingBlocks(message), ...blocks, ...calls];
}

function toToolResult(message: ChatMessage, path: string): unknown {
  const { content, tool_call_id: id, is_error: isError } = message;
  const isText = toParts(content).every(({ type }) => type === 'text');
  return {
    type: 'tool_result',
    tool_use_id: id,
    content: isText
      ? joinTextParts(message, path)
      : toParts(content).flatMap((part) => partToBlocks(part, path)),
    ...(isError === true && { is_error: true }),
    ...copyCacheControl(message),
  };
}

/** Converts a part to content blocks. Empty strings are omitted, because Anthropic rejects them. */
function partToBlocks(part: ContentPart, path: string): unknown[] {
  const cache = copyCacheControl(part);
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text, ...cache }];
    case 'refusal':
      return part.refusal === '' ? [] : [{ type: 'text', text: part.refusal, ...cache }];
    case 'image_url':
      return [{ type: 'image', source: toSource(part.image_url.url, path), ...cache }];
    case 'file': {
      const { file_data: data, file_url: url, filename: title } = part.file;
      const source = toSource(data ?? url ?? '', path);
      return [{ type: 'document', source, ...(title !== undefined && { title }), ...cache }];
    }
    case 'input_audio':
    case 'video_url':
      break;
  }
  throw unsupportedField(path, 'this model does not accept sound or video');
}

const dataUri = /^data:([\w.+-]+\/[\w.+-]+);base64,/;

function toSource(url: string, path: string): unknown {
  const [prefix, mediaType] = dataUri.exec(url.slice(0, 200)) ?? [];
  if (prefix !== undefined) {
    return { type: 'base64', media_type: mediaType, data: url.slice(prefix.length) };
  }
  if (url.startsWith('data:')) throw unsupportedField(path, 'data URIs must be base64');
  return { type: 'url', url };
}

function toToolUse(call: ToolCall, index: number): unknown {
  const path = `messages.${index}.tool_calls`;
  try {
    const input: unknown = JSON.parse(call.function.arguments || '{}');
    if (isRecord(input)) {
      const { id, function: called } = call;
      return { type: 'tool_use', id, name: called.name, input, ...copyCacheControl(call) };
    }
  } catch {
    // Invalid JSON is rejected below, together with arguments that are not an object.
  }
  throw unsupportedField(path, 'arguments must be a JSON object');
}

function joinTextParts({ content }: ChatMessage, path: string): string {
  return toParts(content)
    .map((part) => {
      if (part.type === 'text') return part.text;
      throw unsupportedField(path, 'system messages must contain only text parts');
    })
    .join('\n');
}
