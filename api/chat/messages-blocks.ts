/**
 * Schemas of the content blocks and messages of Anthropic's Messages API.
 *
 * Source: the types of @anthropic-ai/sdk, `MessageParam`.
 */
import { z } from 'zod';
import type { ContentPart } from '../../chat/chat-body.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import {
  cacheControlSchema,
  fileIdSchema,
  fileSourceSchema,
  nameSchema,
  createPartsSchema,
  textSchema,
  withoutNulls,
} from './field-schemas.ts';

/**
 * Field `cache_control` of a block, a tool or a request. Null means the same as a missing field.
 */
export const nullableCacheControlField = { cache_control: cacheControlSchema.nullish() };

const textBlock = z
  .object({ type: z.literal('text'), text: textSchema, ...nullableCacheControlField })
  .transform(({ type, text: content, ...cacheFields }) => ({
    type,
    text: content,
    ...withoutNulls(cacheFields),
  }));
/** Text block as a part of a message. */
export type TextPart = z.infer<typeof textBlock>;

const mediaType = z.string().max(100);
const base64Source = z
  .object({ type: z.literal('base64'), media_type: mediaType, data: fileSourceSchema })
  .transform(({ media_type, data }) => ({ data: `data:${media_type};base64,${data}` }));
const urlSource = z
  .object({ type: z.literal('url'), url: fileSourceSchema })
  .transform(({ url }) => ({ url }));
const fileIdSource = z
  .object({ type: z.literal('file'), file_id: fileIdSchema })
  .transform(({ file_id: id }) => ({ fileId: id }));
const textSource = z
  .object({ type: z.literal('text'), media_type: mediaType, data: textSchema })
  .transform(({ data }) => ({ text: data }));

const imageBlock = z
  .object({
    type: z.literal('image'),
    source: z.discriminatedUnion('type', [base64Source, urlSource, fileIdSource], {
      error: 'must be one of base64, url, file',
    }),
    ...nullableCacheControlField,
  })
  .transform(({ source, cache_control }): ContentPart => {
    const [url = ''] = Object.values(source);
    return { type: 'image_url', image_url: { url }, ...withoutNulls({ cache_control }) };
  });
const documentBlock = z
  .object({
    type: z.literal('document'),
    source: z.discriminatedUnion('type', [base64Source, urlSource, fileIdSource, textSource], {
      error: 'must be one of base64, url, file, text',
    }),
    title: z.string().max(255).nullish(),
    ...nullableCacheControlField,
  })
  .transform(({ source, title, cache_control }): ContentPart => {
    const cacheFields = withoutNulls({ cache_control });
    if ('text' in source) return { type: 'text', text: source.text, ...cacheFields };
    if ('fileId' in source) {
      return { type: 'image_url', image_url: { url: source.fileId }, ...cacheFields };
    }
    const file = 'url' in source ? { file_url: source.url } : { file_data: source.data };
    return {
      type: 'file',
      file: { ...file, ...withoutNulls({ filename: title }) },
      ...cacheFields,
    };
  });
const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: nameSchema,
  content: z.union([textSchema, createPartsSchema(textBlock, imageBlock)]).optional(),
  is_error: z.boolean().nullish(),
  ...nullableCacheControlField,
});
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: nameSchema,
  name: nameSchema,
  input: anyJsonObject,
  ...nullableCacheControlField,
});
const thought = z.object({
  type: z.literal('thinking'),
  thinking: textSchema,
  signature: textSchema,
});
const redacted = z.object({ type: z.literal('redacted_thinking'), data: textSchema });

const userMessage = z.object({
  role: z.literal('user'),
  content: z.union([
    textSchema,
    createPartsSchema(textBlock, imageBlock, documentBlock, toolResult),
  ]),
});
const assistantMessage = z.object({
  role: z.literal('assistant'),
  content: z.union([textSchema, createPartsSchema(textBlock, toolUse, thought, redacted)]),
});

/** Schema of a message. */
export const messageSchema = z.discriminatedUnion('role', [userMessage, assistantMessage], {
  error: 'must be one of user, assistant',
});
/** Schema of the system prompt. */
export const systemPromptSchema = z.union([textSchema, createPartsSchema(textBlock)]);

/** Parsed message. */
export type Message = z.infer<typeof messageSchema>;
/** Content blocks of an assistant message. */
export type AssistantBlocks = Exclude<z.infer<typeof assistantMessage>['content'], string>;
/** Tool call of an assistant message. */
export type ToolUse = z.infer<typeof toolUse>;
/** Tool result in a user message. */
export type ToolResult = z.infer<typeof toolResult>;
/** Parsed system prompt. */
export type SystemPrompt = z.infer<typeof systemPromptSchema>;
