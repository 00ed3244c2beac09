/**
 * Schemas of the items in the `input` of OpenAI's Responses API.
 *
 * Source: the types of the `openai` client, `ResponseInputItem`.
 */
import { z } from 'zod';
import type { PartContent } from '../chat-body.ts';
import { anyJson } from '../../domain/body-schema.ts';
import {
  fileIdSchema,
  fileSourceSchema,
  callIdSchema,
  nameSchema,
  createPartsSchema,
  textSchema,
  withoutNulls,
} from './chat-fields.ts';
import { toArguments, toFunctionName, toolsSchema } from './responses-tools.ts';

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
export const inputItemsSchema = z
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
