/** Translates messages and the system prompt of Anthropic's Messages API to internal messages. */
import type { ChatMessage, ContentPart, ToolCall } from '../../chat/chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { withoutNulls } from './field-schemas.ts';
import type {
  AssistantBlocks,
  Message,
  SystemPrompt,
  TextPart,
  ToolResult,
  ToolUse,
} from './messages-blocks.ts';
import { toReasoningDetail, decodeProviderData } from './thoughts.ts';

/** Converts the system prompt to a list with one message, or none if the prompt is empty. */
export function convertSystemPrompt(prompt: SystemPrompt = ''): ChatMessage[] {
  const content = typeof prompt === 'string' ? prompt : joinTexts(prompt, '\n');
  return content === '' ? [] : [{ role: 'system', content }];
}

/** Joins text parts to one string, or returns them as parts if any of them has `cache_control`. */
function joinTexts(parts: readonly TextPart[], separator: string): string | ContentPart[] {
  return parts.some((part) => part.cache_control)
    ? [...parts]
    : parts.map(({ text }) => text).join(separator);
}

/**
 * Converts a message. Tool results become separate messages, which precede the other content of the
 * user message.
 */
export function convertMessage({ role, content }: Message): ChatMessage[] {
  if (typeof content === 'string') return [{ role, content }];
  if (role === 'assistant') return [convertAssistantMessage(content)];
  const results: ChatMessage[] = [];
  const parts: ContentPart[] = [];
  for (const block of content) {
    if (block.type === 'tool_result') results.push(convertToolResult(block));
    else parts.push(block);
  }
  return parts.length > 0 ? [...results, { role: 'user', content: parts }] : results;
}

function convertToolResult({ content = '', is_error: isError, ...block }: ToolResult): ChatMessage {
  const isText = typeof content !== 'string' && content.every(({ type }) => type === 'text');
  return {
    role: 'tool',
    tool_call_id: block.tool_use_id,
    content: isText
      ? content.map((part) => (part.type === 'text' ? part.text : '')).join('\n')
      : content,
    ...(isError === true && { is_error: true }),
    ...withoutNulls({ cache_control: block.cache_control }),
  };
}

function convertAssistantMessage(content: AssistantBlocks): ChatMessage {
  const texts: TextPart[] = [];
  const calls: ToolCall[] = [];
  const details: JsonObject[] = [];
  let thoughts = '';
  /** Provider data that belongs to the next tool call. */
  let extraContent: JsonObject | undefined;
  for (const block of content) {
    if (block.type === 'text') texts.push(block);
    if (block.type === 'thinking') {
      thoughts += block.thinking;
      details.push(
        toReasoningDetail({ text: block.thinking, signature: block.signature, data: '' }),
      );
    }
    if (block.type === 'redacted_thinking') {
      const providerData = decodeProviderData(block.data);
      if (providerData) extraContent = providerData.extraContent;
      else details.push(toReasoningDetail({ text: '', signature: '', data: block.data }));
    }
    if (block.type !== 'tool_use') continue;
    calls.push(convertToolCall(block, extraContent));
    extraContent = undefined;
  }
  return {
    role: 'assistant',
    content: joinTexts(texts, ''),
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function convertToolCall(
  { id, name, input, cache_control }: ToolUse,
  extraContent: JsonObject | undefined,
): ToolCall {
  return {
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
    ...withoutNulls({ cache_control, extra_content: extraContent }),
  };
}
