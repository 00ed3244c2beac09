/** Translates the `input` of OpenAI's Responses API to messages of the internal request. */
import { z } from 'zod';
import { readThought } from '../answer-blocks.ts';
import type { AnswerBlock, ChatMessage, PartContent, ToolCall } from '../chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { locateParts, textSchema } from './chat-fields.ts';
import {
  inputItemsSchema,
  notStoredReason,
  type ToolCallItem,
  type InputItem,
  type MessageItem,
  type ReasoningItem,
} from './responses-items.ts';
import type { toolsSchema } from './responses-tools.ts';
import { decodeProviderData } from './thoughts.ts';

/** Translated messages, tools among the items, and the paths of the items that were ignored. */
interface TranslatedInput {
  messages: ChatMessage[];
  tools: z.infer<typeof toolsSchema>;
  ignored: string[];
}

/** Schema of the `input` field. */
export const inputSchema = z
  .union([textSchema, inputItemsSchema])
  .transform((sentInput, ctx): TranslatedInput => {
    if (typeof sentInput === 'string')
      return {
        messages: [{ role: 'user', path: 'input', content: sentInput }],
        tools: [],
        ignored: [],
      };
    const ignored: string[] = [];
    for (const [index, item] of sentInput.entries()) {
      if ('role' in item || item.type !== 'item_reference') continue;
      if (canBeDropped(sentInput, index)) ignored.push(`input.${index}`);
      else {
        const message = `item_reference is not supported: ${notStoredReason}`;
        ctx.addIssue({ code: 'custom', path: [index, 'type'], message });
      }
    }
    const tools = sentInput.flatMap((item) => ('tools' in item ? item.tools : []));
    return { messages: toMessages(sentInput), tools, ignored };
  });

/**
 * Returns whether an item reference can be dropped, because its item is reasoning or the text
 * before a tool call, and the conversation is complete without it. Vercel's AI SDK sends such
 * references unless `store: false` is set.
 */
function canBeDropped(inputItems: readonly InputItem[], index: number): boolean {
  const nextItem = inputItems
    .slice(index + 1)
    .find((item) => 'role' in item || item.type !== 'item_reference');
  const item = inputItems[index];
  const isReasoning = item && 'id' in item && item.id.startsWith('rs_');
  return (
    isReasoning ||
    (nextItem !== undefined && !('role' in nextItem) && nextItem.type === 'function_call')
  );
}

/**
 * Converts items to messages. All items of the model form one message, in their order, until a
 * result of a tool or another message comes; a text after a text begins a message of its own.
 */
function toMessages(inputItems: readonly InputItem[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  /** Provider data that belongs to the next tool call. */
  let pendingExtraContent: JsonObject | undefined;
  for (const [index, item] of inputItems.entries()) {
    const path = `input.${index}`;
    if ('role' in item) addMessage(messages, item, path);
    else if (item.type === 'reasoning')
      pendingExtraContent = addReasoning(messages, item, path) ?? pendingExtraContent;
    else if (item.type === 'function_call') {
      addBlocks(messages, path, [toCall(item, path, pendingExtraContent)]);
      pendingExtraContent = undefined;
    } else if (item.type === 'function_call_output') {
      const { call_id: tool_call_id, output } = item;
      const hasMedia = typeof output !== 'string' && output.some(({ type }) => type !== 'text');
      const content = hasMedia ? locateParts(output, `${path}.output`) : joinTexts(output);
      messages.push({ role: 'tool', path, tool_call_id, content });
    }
  }
  // A message that contains only reasoning is dropped, because models do not use it.
  return messages.filter(
    (message) => message.role !== 'assistant' || !hasOnlyReasoning(message.blocks),
  );
}

function hasOnlyReasoning(blocks: readonly AnswerBlock[]): boolean {
  return blocks.every(({ type }) => type === 'thought');
}

/** Adds blocks to the last message if it is an assistant message, otherwise to a new one. */
function addBlocks(messages: ChatMessage[], path: string, blocks: readonly AnswerBlock[]): void {
  const lastMessage = messages.at(-1);
  if (lastMessage?.role === 'assistant') lastMessage.blocks.push(...blocks);
  else messages.push({ role: 'assistant', path, blocks: [...blocks] });
}

/** Adds the thoughts of an item; returns the provider data for the next tool call, if any. */
function addReasoning(
  messages: ChatMessage[],
  { summary, encrypted_content: encrypted }: ReasoningItem,
  path: string,
): JsonObject | undefined {
  const text = (summary ?? []).map((part) => part.text ?? '').join('\n');
  const { details = [], extraContent } = decodeProviderData(encrypted ?? '') ?? {};
  if (details.length > 0) addBlocks(messages, path, details.map(readThought));
  else if (text !== '') addBlocks(messages, path, [readThought({ text })]);
  return extraContent;
}

function toCall(item: ToolCallItem, path: string, extra: JsonObject | undefined): ToolCall {
  return {
    id: item.call_id,
    type: 'function',
    path: `${path}.arguments`,
    function: { name: item.name, arguments: item.arguments },
    ...(extra && { extra_content: extra }),
  };
}

function addMessage(messages: ChatMessage[], item: MessageItem, path: string): void {
  const { role, content } = item;
  if (role === 'user') {
    messages.push({ role, path, content: locateParts(content, `${path}.content`) });
  } else if (role === 'assistant') {
    const lastMessage = messages.at(-1);
    const blocks = toTextBlocks(content);
    const lastBlock = lastMessage?.role === 'assistant' ? lastMessage.blocks.at(-1) : undefined;
    if (lastBlock?.type === 'text') messages.push({ role, path, blocks });
    else addBlocks(messages, path, blocks);
  } else messages.push({ role: 'system', path, content: joinTexts(content) });
}

function toTextBlocks(
  content: Extract<MessageItem, { role: 'assistant' }>['content'],
): AnswerBlock[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  const texts = content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  const refusals = content.filter((part) => part.type === 'refusal');
  return [...(texts.length > 0 ? [textBlock(texts.join('\n'))] : []), ...refusals];
}

const textBlock = (text: string): AnswerBlock => ({ type: 'text', text });

/** Joins the text parts of a message into one string. */
function joinTexts(content: string | readonly PartContent[]): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}
