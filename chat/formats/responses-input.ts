/** Translates the `input` of OpenAI's Responses API to messages of the internal request. */
import { z } from 'zod';
import type { PartContent, AnswerBlock, ChatMessage, ToolCall } from '../chat-body.ts';
import { anyJson } from '../../domain/body-schema.ts';
import {
  fileIdSchema,
  fileSourceSchema,
  callIdSchema,
  nameSchema,
  createPartsSchema,
  textSchema,
  withoutNulls,
  locateParts,
} from './chat-fields.ts';
import { toArguments, toFunctionName, toolsSchema } from './responses-tools.ts';
import { readThought } from '../answer-blocks.ts';
import type { JsonObject } from '../../domain/json.ts';
import { decodeProviderData } from './reasoning.ts';

/** Part of error messages: why a reference to a stored response is rejected, and what to send. */
export const notStoredReason =
  'responses are not stored; send the whole conversation in input (some SDKs do so only with store: false)';

const isPresent = (value: unknown): boolean => value != null;

const inputText = z
  .object({ type: z.literal('input_text'), text: textSchema })
  .transform((part): PartContent => ({ type: 'text', text: part.text }));
const inputImage = z
  .object({
    type: z.literal('input_image'),
    file_id: fileIdSchema.nullish(),
    image_url: fileSourceSchema.nullish(),
    detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
  })
  .refine((part) => isPresent(part.file_id) !== isPresent(part.image_url), {
    path: ['image_url'],
    message: 'is required unless there is a file_id',
  })
  .transform(({ file_id, image_url, detail }): PartContent => {
    const url = image_url ?? file_id ?? '';
    return { type: 'image_url', image_url: { url, ...withoutNulls({ detail }) } };
  });
const inputFile = z
  .object({
    type: z.literal('input_file'),
    file_id: fileIdSchema.nullish(),
    file_url: fileSourceSchema.nullish(),
    file_data: fileSourceSchema.nullish(),
    filename: z.string().max(255).nullish(),
  })
  .refine((part) => [part.file_id, part.file_url, part.file_data].some(isPresent), {
    path: ['file_data'],
    message: 'is required unless there is a file_url or a file_id',
  })
  .transform(({ file_id: id, file_url, file_data, filename }): PartContent => {
    if (id == null) return { type: 'file', file: withoutNulls({ file_url, file_data, filename }) };
    return { type: 'image_url', image_url: { url: id } };
  });
const outputText = z
  .object({ type: z.literal('output_text'), text: textSchema })
  .transform((part): PartContent => ({ type: 'text', text: part.text }));
const refusal = z.object({ type: z.literal('refusal'), refusal: textSchema });

const messageTypeField = { type: z.literal('message').nullish() };
const inputMessage = z.object({
  ...messageTypeField,
  role: z.literal('user'),
  content: z.union([textSchema, createPartsSchema(inputText, inputImage, inputFile)]),
});
const systemMessage = z.object({
  ...messageTypeField,
  role: z.enum(['system', 'developer']),
  content: z.union([textSchema, createPartsSchema(inputText)]),
});
const outputMessage = z.object({
  ...messageTypeField,
  role: z.literal('assistant'),
  content: z.union([textSchema, createPartsSchema(outputText, refusal, inputText)]),
});
const callFields = { call_id: callIdSchema, name: nameSchema, namespace: nameSchema.nullish() };
const functionCall = z
  .object({ type: z.literal('function_call'), ...callFields, arguments: textSchema })
  .transform(({ namespace, ...item }) => ({ ...item, name: toFunctionName(item.name, namespace) }));
const outputField = { output: z.union([textSchema, createPartsSchema(inputText, inputImage)]) };
const functionCallOutput = z.object({
  type: z.literal('function_call_output'),
  call_id: callIdSchema,
  ...outputField,
});
/** Calls of other tools, and their results, become those of the functions that stand for the tools. */
const customToolCall = z
  .object({ type: z.literal('custom_tool_call'), ...callFields, input: textSchema })
  .transform(({ call_id, name, namespace, input }) => ({
    type: 'function_call' as const,
    call_id,
    name: toFunctionName(name, namespace),
    arguments: toArguments(input),
  }));
const customToolCallOutput = z
  .object({ type: z.literal('custom_tool_call_output'), call_id: callIdSchema, ...outputField })
  .transform((item) => ({ ...item, type: 'function_call_output' as const }));
const toolSearchCall = z
  .object({ type: z.literal('tool_search_call'), call_id: callIdSchema, arguments: anyJson })
  .transform(({ call_id, arguments: input }) => ({
    type: 'function_call' as const,
    call_id,
    name: 'tool_search',
    arguments: JSON.stringify(input),
  }));
/** Tools that a search found. They are added to the tools of the request. */
const toolSearchOutput = z
  .object({ type: z.literal('tool_search_output'), call_id: callIdSchema, tools: toolsSchema })
  .transform(({ call_id, tools }) => ({
    type: 'function_call_output' as const,
    call_id,
    output: JSON.stringify(tools),
    tools,
  }));
/** Tools that Codex sends as an item instead of in the field `tools`. */
const additionalTools = z.object({ type: z.literal('additional_tools'), tools: toolsSchema });
const reasoningItem = z.object({
  type: z.literal('reasoning'),
  summary: z
    .array(z.object({ text: textSchema.nullish() }))
    .max(1024)
    .nullish(),
  encrypted_content: textSchema.nullish(),
});
/** Reference to an item of an earlier response, which some clients send instead of the item. */
const itemReference = z.object({ type: z.literal('item_reference'), id: nameSchema });

const inputItemSchema = z.discriminatedUnion(
  'type',
  [
    z.discriminatedUnion('role', [inputMessage, systemMessage, outputMessage], {
      error: 'must be one of user, system, developer, assistant',
    }),
    functionCall,
    functionCallOutput,
    customToolCall,
    customToolCallOutput,
    toolSearchCall,
    toolSearchOutput,
    additionalTools,
    reasoningItem,
    itemReference,
  ],
  {
    error:
      'must be one of message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, tool_search_call, tool_search_output, additional_tools, reasoning',
  },
);

/** Items of a conversation. */
const inputItemsSchema = z
  .array(inputItemSchema)
  .min(1, 'must contain at least one item')
  .max(4096);
/** Item of a conversation. */
export type InputItem = z.infer<typeof inputItemSchema>;
/** Message of a conversation. */
export type MessageItem = Extract<InputItem, { role: string }>;
/** Reasoning of an earlier response. */
export type ReasoningItem = z.infer<typeof reasoningItem>;
/** Tool call of an earlier response. */
export type ToolCallItem = z.infer<typeof functionCall>;

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
