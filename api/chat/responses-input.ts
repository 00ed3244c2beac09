/** Translates the `input` of OpenAI's Responses API to messages of the internal request. */
import { z } from 'zod';
import type { ChatMessage, ContentPart } from '../../chat/chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { textSchema } from './field-schemas.ts';
import {
  inputItemsSchema,
  notStoredReason,
  type ToolCallItem,
  type InputItem,
  type MessageItem,
  type ReasoningItem,
} from './responses-items.ts';
import { decodeProviderData } from './thoughts.ts';

/** Translated messages, and the paths of the items that were ignored. */
interface TranslatedInput {
  messages: ChatMessage[];
  ignored: string[];
}

/** Schema of the `input` field. */
export const inputSchema = z
  .union([textSchema, inputItemsSchema])
  .transform((sentInput, ctx): TranslatedInput => {
    if (typeof sentInput === 'string')
      return { messages: [{ role: 'user', content: sentInput }], ignored: [] };
    const ignored: string[] = [];
    for (const [index, item] of sentInput.entries()) {
      if (!('type' in item) || item.type !== 'item_reference') continue;
      if (canBeDropped(sentInput, index)) ignored.push(`input.${index}`);
      else {
        const message = `item_reference is not supported: ${notStoredReason}`;
        ctx.addIssue({ code: 'custom', path: [index, 'type'], message });
      }
    }
    return { messages: toMessages(sentInput), ignored };
  });

/**
 * Returns whether an item reference can be dropped, because its item is reasoning or the text
 * before a tool call, and the conversation is complete without it. Vercel's AI SDK sends such
 * references unless `store: false` is set.
 */
function canBeDropped(inputItems: readonly InputItem[], index: number): boolean {
  const nextItem = inputItems
    .slice(index + 1)
    .find((item) => !('type' in item) || item.type !== 'item_reference');
  const item = inputItems[index];
  const isReasoning = item && 'id' in item && item.id.startsWith('rs_');
  return (
    isReasoning ||
    (nextItem !== undefined && 'type' in nextItem && nextItem.type === 'function_call')
  );
}

/**
 * Converts items to messages. Reasoning, assistant text and the tool calls that follow it are
 * combined in one message.
 */
function toMessages(inputItems: readonly InputItem[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  /** Provider data that belongs to the next tool call. */
  let pendingExtraContent: JsonObject | undefined;
  for (const item of inputItems) {
    if ('role' in item) addMessage(messages, item);
    else if (item.type === 'reasoning')
      pendingExtraContent = addReasoning(messages, item) ?? pendingExtraContent;
    else if (item.type === 'function_call') {
      addCall(messages, item, pendingExtraContent);
      pendingExtraContent = undefined;
    } else if (item.type === 'function_call_output') {
      const { call_id, output } = item;
      const hasPictures = typeof output !== 'string' && output.some(({ type }) => type !== 'text');
      const content = hasPictures ? output : joinTexts(output);
      messages.push({ role: 'tool', tool_call_id: call_id, content });
    }
  }
  return messages.filter(({ role, content, tool_calls: calls }) => {
    // An assistant message that contains only reasoning is dropped, because models do not use it.
    return role !== 'assistant' || content !== null || calls;
  });
}

/**
 * Returns the last message if it is an assistant message for which `accepts` returns true.
 * Otherwise adds a new assistant message and returns it.
 */
function findOrAddAssistantMessage(
  messages: ChatMessage[],
  accepts: (assistantMessage: ChatMessage) => boolean = () => true,
): ChatMessage {
  const lastMessage = messages.at(-1);
  if (lastMessage?.role === 'assistant' && accepts(lastMessage)) return lastMessage;
  const assistantMessage: ChatMessage = { role: 'assistant', content: null };
  messages.push(assistantMessage);
  return assistantMessage;
}

/** Returns whether a message contains only reasoning. */
function hasOnlyReasoning({ content, tool_calls: calls }: ChatMessage): boolean {
  return content === null && !calls;
}

function addReasoning(
  messages: ChatMessage[],
  { summary, encrypted_content: encrypted }: ReasoningItem,
): JsonObject | undefined {
  const thoughts = (summary ?? []).map((part) => part.text ?? '').join('\n');
  const { details = [], extraContent } = decodeProviderData(encrypted ?? '') ?? {};
  if (thoughts === '' && details.length === 0) return extraContent;
  const assistantMessage = findOrAddAssistantMessage(messages, hasOnlyReasoning);
  if (thoughts !== '')
    assistantMessage.reasoning_content = (assistantMessage.reasoning_content ?? '') + thoughts;
  if (details.length > 0)
    assistantMessage.reasoning_details = [
      ...(assistantMessage.reasoning_details ?? []),
      ...details,
    ];
  return extraContent;
}

function addCall(messages: ChatMessage[], item: ToolCallItem, extra: JsonObject | undefined): void {
  const assistantMessage = findOrAddAssistantMessage(messages);
  assistantMessage.tool_calls ??= [];
  assistantMessage.tool_calls.push({
    id: item.call_id,
    type: 'function',
    function: { name: item.name, arguments: item.arguments },
    ...(extra && { extra_content: extra }),
  });
}

function addMessage(messages: ChatMessage[], { role, content }: MessageItem): void {
  if (role === 'user') messages.push({ role, content });
  else if (role === 'assistant')
    findOrAddAssistantMessage(messages, hasOnlyReasoning).content = joinTexts(content);
  else messages.push({ role: 'system', content: joinTexts(content) });
}

/** Joins the text parts of a message into one string. */
function joinTexts(content: string | readonly ContentPart[]): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}
