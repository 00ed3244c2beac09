/**
 * Messages and the system prompt of Anthropic's Messages API, translated to messages of a chat.
 *
 * Source: the types of @anthropic-ai/sdk, `MessageParam`.
 */
import { z } from 'zod';
import type { ChatMessage, ContentPart, ToolCall } from '../../chat/chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import { cacheControl, dataMax, given, name, text } from './chat-messages.ts';
import { detailOf, unsealed } from './thoughts.ts';

const blocksMax = 1024;
const marked = { cache_control: cacheControl.nullish() };
const textBlock = z.object({ type: z.literal('text'), text, ...marked });
const base64Source = z.object({
  type: z.literal('base64'),
  media_type: z.string().max(100),
  data: z.string().min(1).max(dataMax),
});
const urlSource = z.object({ type: z.literal('url'), url: z.string().max(dataMax) });
const imageBlock = z.object({
  type: z.literal('image'),
  source: z.discriminatedUnion('type', [base64Source, urlSource], {
    error: 'must be one of base64, url',
  }),
  ...marked,
});
const documentBlock = z.object({
  type: z.literal('document'),
  source: z.discriminatedUnion(
    'type',
    [
      base64Source,
      urlSource,
      z.object({ type: z.literal('text'), media_type: z.string().max(100), data: text }),
    ],
    { error: 'must be one of base64, url, text' },
  ),
  title: z.string().max(255).nullish(),
  ...marked,
});
const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: name,
  content: z
    .union([
      text,
      z
        .array(
          z.discriminatedUnion('type', [textBlock, imageBlock], {
            error: 'must be one of text, image',
          }),
        )
        .max(blocksMax),
    ])
    .optional(),
  is_error: z.boolean().nullish(),
  ...marked,
});
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: name,
  name,
  input: anyJsonObject,
  ...marked,
});
const thought = z.object({ type: z.literal('thinking'), thinking: text, signature: text });
const redacted = z.object({ type: z.literal('redacted_thinking'), data: text });

const userMessage = z.object({
  role: z.literal('user'),
  content: z.union([
    text,
    z
      .array(
        z.discriminatedUnion('type', [textBlock, imageBlock, documentBlock, toolResult], {
          error: 'must be one of text, image, document, tool_result',
        }),
      )
      .max(blocksMax),
  ]),
});
const assistantMessage = z.object({
  role: z.literal('assistant'),
  content: z.union([
    text,
    z
      .array(
        z.discriminatedUnion('type', [textBlock, toolUse, thought, redacted], {
          error: 'must be one of text, tool_use, thinking, redacted_thinking',
        }),
      )
      .max(blocksMax),
  ]),
});

/** Schema of a message. */
export const message = z.discriminatedUnion('role', [userMessage, assistantMessage], {
  error: 'must be one of user, assistant',
});
/** Schema of the system prompt. */
export const system = z.union([text, z.array(textBlock).max(blocksMax)]);

/** Converts the system prompt to a message; returns none if it is empty. */
export function systemOf(prompt: z.infer<typeof system> = ''): ChatMessage[] {
  const content = textsOf(typeof prompt === 'string' ? [{ text: prompt }] : prompt, '\n');
  return content === '' ? [] : [{ role: 'system', content }];
}

type TextBlock = Pick<z.infer<typeof textBlock>, 'text' | 'cache_control'>;

/** Joins texts to one; returns them as separate parts if one of them ends a cached prompt. */
function textsOf(blocks: readonly TextBlock[], separator: string): string | ContentPart[] {
  if (!blocks.some((block) => block.cache_control)) {
    return blocks.map((block) => block.text).join(separator);
  }
  return blocks.map((block) => ({
    type: 'text',
    text: block.text,
    ...given({ cache_control: block.cache_control }),
  }));
}

/**
 * Converts a message. Tool results become separate messages, before the other content of the user's
 * message.
 */
export function messagesOf({ role, content }: z.infer<typeof message>): ChatMessage[] {
  if (typeof content === 'string') return [{ role, content }];
  if (role === 'assistant') return [assistantTurn(content)];
  const results: ChatMessage[] = [];
  const parts: ContentPart[] = [];
  for (const block of content) {
    if (block.type === 'tool_result') results.push(resultOf(block));
    else parts.push(partOf(block));
  }
  return parts.length > 0 ? [...results, { role: 'user', content: parts }] : results;
}

function resultOf(block: z.infer<typeof toolResult>): ChatMessage {
  const { tool_use_id: id, content = '', is_error: isError } = block;
  const isText = typeof content === 'string' || content.every(({ type }) => type === 'text');
  return {
    role: 'tool',
    tool_call_id: id,
    content: isText ? joined(content) : content.map(partOf),
    ...(isError === true && { is_error: true }),
    ...given({ cache_control: block.cache_control }),
  };
}

type Results = NonNullable<z.infer<typeof toolResult>['content']>;

function joined(content: Results): string {
  if (typeof content === 'string') return content;
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}

type AssistantBlocks = Exclude<z.infer<typeof assistantMessage>['content'], string>;

function assistantTurn(content: AssistantBlocks): ChatMessage {
  const texts: TextBlock[] = [];
  const calls: ToolCall[] = [];
  const details: JsonObject[] = [];
  let thoughts = '';
  /** Data that belongs to the next call. */
  let extra: JsonObject | undefined;
  for (const block of content) {
    if (block.type === 'text') texts.push(block);
    if (block.type === 'thinking') {
      thoughts += block.thinking;
      details.push(detailOf({ text: block.thinking, signature: block.signature, data: '' }));
    }
    if (block.type === 'redacted_thinking') {
      const ours = unsealed(block.data);
      if (ours) extra = ours.extraContent;
      else details.push(detailOf({ text: '', signature: '', data: block.data }));
    }
    if (block.type !== 'tool_use') continue;
    calls.push(callOf(block, extra));
    extra = undefined;
  }
  return {
    role: 'assistant',
    content: textsOf(texts, ''),
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function callOf(block: z.infer<typeof toolUse>, extra: JsonObject | undefined): ToolCall {
  const { id, name: called, input, cache_control } = block;
  return {
    id,
    type: 'function',
    function: { name: called, arguments: JSON.stringify(input) },
    ...given({ cache_control, extra_content: extra }),
  };
}

type Part = z.infer<typeof textBlock> | z.infer<typeof imageBlock> | z.infer<typeof documentBlock>;

function partOf(block: Part): ContentPart {
  const mark = given({ cache_control: block.cache_control });
  if (block.type === 'text') return { type: 'text', text: block.text, ...mark };
  const { source } = block;
  if (source.type === 'text') return { type: 'text', text: source.data, ...mark };
  const data = source.type === 'url' ? null : `data:${source.media_type};base64,${source.data}`;
  const url = source.type === 'url' ? source.url : null;
  if (block.type === 'image') {
    return { type: 'image_url', image_url: { url: data ?? url ?? '' }, ...mark };
  }
  const file = given({ file_data: data, file_url: url, filename: block.title });
  return { type: 'file', file, ...mark };
}
