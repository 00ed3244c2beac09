/**
 * Translates requests of Anthropic's Messages API to the internal chat request. Unsupported fields
 * are rejected if ignoring them would change the answer. Unsupported hints are dropped.
 *
 * Source: the types of @anthropic-ai/sdk, `MessageCreateParams`.
 */
import { z } from 'zod';
import type {
  AnswerBlock,
  AssistantMessage,
  ChatBody,
  ChatMessage,
  ContentPart,
  PartContent,
  ToolCall,
} from '../chat-body.ts';
import type { JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';
import {
  type ChatRequest,
  cacheControlField,
  convertTags,
  createPartsSchema,
  createRejectedField,
  fallbacksSchema,
  fileIdSchema,
  fileSourceSchema,
  locateParts,
  modelIdSchema,
  callIdSchema,
  nameSchema,
  requiresTools,
  tagFields,
  textSchema,
  toolNameSchema,
  withoutNulls,
} from './chat-fields.ts';
import { convertStop } from './completions-request.ts';
import {
  isThinkingBudgetValid,
  thinkingBudgetIssue,
  thinkingSchema,
  convertEffort,
  convertThinking,
  decodeProviderData,
  readThoughtBlock,
} from './reasoning.ts';

const textBlock = z
  .object({ type: z.literal('text'), text: textSchema, ...cacheControlField })
  .transform(({ type, text, ...cache }) => ({ type, text, ...withoutNulls(cache) }));
/** Text block as a part of a message. */
type TextPart = z.infer<typeof textBlock>;

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
    ...cacheControlField,
  })
  .transform(({ source, cache_control }): PartContent => {
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
    ...cacheControlField,
  })
  .transform(({ source, title, cache_control }): PartContent => {
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
  tool_use_id: callIdSchema,
  content: z.union([textSchema, createPartsSchema(textBlock, imageBlock, documentBlock)]).nullish(),
  is_error: z.boolean().nullish(),
  ...cacheControlField,
});
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: callIdSchema,
  name: nameSchema,
  input: anyJsonObject,
  ...cacheControlField,
});
const thought = z.object({
  type: z.literal('thinking'),
  thinking: textSchema,
  signature: textSchema.nullish(),
});
const redacted = z.object({ type: z.literal('redacted_thinking'), data: textSchema });

const userMessage = z.object({
  role: z.literal('user'),
  content: z.union([
    textSchema,
    createPartsSchema(textBlock, imageBlock, documentBlock, toolResult).min(1),
  ]),
});
const assistantMessage = z.object({
  role: z.literal('assistant'),
  content: z.union([textSchema, createPartsSchema(textBlock, toolUse, thought, redacted)]),
});
/** Schema of the system prompt, and of instructions within the conversation. */
const instructions = z.union([textSchema, createPartsSchema(textBlock)]);
const systemMessage = z.object({ role: z.literal('system'), content: instructions });
const message = z.discriminatedUnion('role', [userMessage, assistantMessage, systemMessage], {
  error: 'must be one of user, assistant, system',
});

const tool = z.object({
  type: z.literal('custom', 'must be custom: only client tools are supported').nullish(),
  name: toolNameSchema,
  description: textSchema.nullish(),
  input_schema: anyJsonObject,
  strict: z.boolean().nullish(),
  ...cacheControlField,
});
const parallelField = { disable_parallel_tool_use: z.boolean().nullish() };
const toolChoice = z.discriminatedUnion('type', [
  z.object({ type: z.literal('auto'), ...parallelField }),
  z.object({ type: z.literal('any'), ...parallelField }),
  z.object({ type: z.literal('tool'), name: nameSchema, ...parallelField }),
  z.object({ type: z.literal('none') }),
]);
const wireRequest = z.object({
  model: modelIdSchema,
  models: fallbacksSchema,
  max_tokens: z.int().min(1),
  messages: z.array(message).min(1, 'must contain at least one message').max(4096),
  system: instructions.nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().min(0).max(1).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  stop_sequences: z.array(z.string().max(1024)).max(256).nullish(),
  tools: z.array(tool).max(512).nullish(),
  tool_choice: toolChoice.nullish(),
  // Agents send ids of their own sessions here, so `user_id` is no end user.
  metadata: z.object({ user_id: z.string().max(512).nullish() }).nullish(),
  endUser: tagFields.endUser,
  output_config: z
    .object({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      format: z.object({ type: z.literal('json_schema'), schema: anyJsonObject }).nullish(),
    })
    .nullish(),
  service_tier: z.enum(['auto', 'standard_only']).nullish(),
  speed: z.literal('standard', 'must be standard: faster tiers are not supported').nullish(),
  top_k: z.int().min(1).max(1000).nullish(),
  thinking: thinkingSchema.nullish(),
  ...cacheControlField,
  container: createRejectedField('tools that the provider runs are not supported'),
  mcp_servers: createRejectedField('tools that the provider runs are not supported'),
});
type WireRequest = z.infer<typeof wireRequest>;

/** Schema of the body of POST /api/v1/messages. */
export const messagesRequestSchema = wireRequest
  .refine(isThinkingBudgetValid, thinkingBudgetIssue)
  .refine(
    ({ tools, tool_choice: choice }) =>
      !['any', 'tool'].includes(choice?.type ?? 'auto') || Boolean(tools?.length),
    { path: ['tool_choice'], message: requiresTools },
  )
  .transform(toRequest);

/** Schema of the body of POST /api/v1/messages/count_tokens. */
export const countRequestSchema = wireRequest
  .omit({ max_tokens: true })
  .transform((wire) => toRequest({ ...wire, max_tokens: 1 }));

function toRequest(wire: WireRequest): ChatRequest {
  return {
    model: wire.model,
    ...(wire.models && { fallbacks: wire.models }),
    maxTokens: wire.max_tokens,
    stream: wire.stream ?? false,
    includeUsage: false,
    ...convertTags({ endUser: wire.endUser }),
    body: {
      messages: [
        ...convertInstructions(wire.system ?? '', 'system'),
        ...wire.messages.flatMap((each, index) => convertMessage(each, `messages.${index}`)),
      ],
      ...convertOptions(wire),
    },
  };
}

/** Converts instructions to a list with one message, or none if they are empty. */
function convertInstructions(parts: z.infer<typeof instructions>, path: string): ChatMessage[] {
  const isMarked = typeof parts !== 'string' && parts.some((part) => part.cache_control);
  const content = isMarked ? locateParts(parts, path) : joinTexts(parts);
  return content.length === 0 ? [] : [{ role: 'system', path, content }];
}

function joinTexts(parts: string | readonly TextPart[]): string {
  return typeof parts === 'string' ? parts : parts.map(({ text }) => text).join('\n');
}

/**
 * Converts a message. Tool results become separate messages, which precede the other content of the
 * user message.
 */
function convertMessage({ role, content }: z.infer<typeof message>, path: string): ChatMessage[] {
  if (role === 'system') return convertInstructions(content, path);
  if (role === 'assistant') {
    const blocks =
      typeof content === 'string'
        ? [{ type: 'text' as const, text: content }]
        : convertAnswer(content);
    return [{ role, path, blocks }];
  }
  if (typeof content === 'string') return [{ role, path, content }];
  const results: ChatMessage[] = [];
  const parts: ContentPart[] = [];
  for (const [index, block] of content.entries()) {
    const blockPath = `${path}.content.${index}`;
    if (block.type === 'tool_result') results.push(convertToolResult(block, blockPath));
    else parts.push({ ...block, path: blockPath });
  }
  return parts.length === 0 ? results : [...results, { role, path, content: parts }];
}

function convertToolResult(
  {
    content,
    is_error: isError,
    tool_use_id: tool_call_id,
    cache_control,
  }: z.infer<typeof toolResult>,
  path: string,
): ChatMessage {
  const parts = content ?? '';
  const isText = typeof parts === 'string' || parts.every(({ type }) => type === 'text');
  return {
    role: 'tool',
    path,
    tool_call_id,
    content: isText ? joinPartTexts(parts) : locateParts(parts, `${path}.content`),
    ...(isError === true && { is_error: true }),
    ...withoutNulls({ cache_control }),
  };
}

function joinPartTexts(parts: string | readonly PartContent[]): string {
  if (typeof parts === 'string') return parts;
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function convertAnswer(
  content: Exclude<z.infer<typeof assistantMessage>['content'], string>,
): AssistantMessage['blocks'] {
  const blocks: AnswerBlock[] = [];
  /** Provider data that belongs to the next tool call. */
  let extraContent: JsonObject | undefined;
  for (const block of content) {
    const callData =
      block.type === 'redacted_thinking' ? decodeProviderData(block.data)?.extraContent : undefined;
    if (block.type === 'text') blocks.push(block);
    else if (block.type === 'tool_use') {
      blocks.push(convertToolCall(block, extraContent));
      extraContent = undefined;
    } else if (callData) extraContent = callData;
    else blocks.push(readThoughtBlock(block));
  }
  return blocks;
}

function convertToolCall(
  { id, name, input, cache_control }: z.infer<typeof toolUse>,
  extraContent: JsonObject | undefined,
): ToolCall {
  return {
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
    ...withoutNulls({ cache_control, extra_content: extraContent }),
  };
}

function convertOptions(wire: WireRequest): Omit<ChatBody, 'messages'> {
  const format = wire.output_config?.format;
  return {
    ...withoutNulls({
      temperature: wire.temperature,
      top_p: wire.top_p,
      top_k: wire.top_k,
      user: wire.metadata?.user_id,
      cache_control: wire.cache_control,
    }),
    ...convertStop(wire.stop_sequences),
    ...convertReasoning(wire),
    ...(format && {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: format.schema, strict: true },
      },
    }),
    ...convertTools(wire),
  };
}

/** Converts the fields of reasoning. An effort alone does not enable it in Anthropic's API. */
function convertReasoning({ thinking, output_config: config }: WireRequest): Partial<ChatBody> {
  const effort = convertEffort(config?.effort, 'output_config.effort');
  if (!thinking) {
    const modeField = 'output_config.effort';
    return effort.effort ? { reasoning: { mode: 'default', modeField, ...effort } } : {};
  }
  const { mode, ...fields } = convertThinking(thinking);
  // Agents turn thinking off for all models, also for those that always reason.
  return { reasoning: { mode: mode === 'off' ? 'off if possible' : mode, ...fields, ...effort } };
}

function convertTools({ tools, tool_choice: choice }: WireRequest): Partial<ChatBody> {
  if (!tools || tools.length === 0) return {};
  const parallel = choice && 'disable_parallel_tool_use' in choice;
  return {
    tools: tools.map(({ name: title, description, input_schema: parameters, ...wire }) => ({
      type: 'function',
      function: { name: title, parameters, ...withoutNulls({ description, strict: wire.strict }) },
      ...withoutNulls({ cache_control: wire.cache_control }),
    })),
    ...(choice && { tool_choice: convertToolChoice(choice) }),
    ...(parallel && choice.disable_parallel_tool_use && { parallel_tool_calls: false }),
  };
}

function convertToolChoice(
  choice: NonNullable<WireRequest['tool_choice']>,
): NonNullable<ChatBody['tool_choice']> {
  if (choice.type === 'any') return 'required';
  if (choice.type === 'tool') return { type: 'function', function: { name: choice.name } };
  return choice.type;
}

/** Field names in the Messages API, keyed by the field name in the internal chat request. */
const messagesNames: Readonly<Record<string, string>> = {
  user: 'metadata.user_id',
  stop: 'stop_sequences',
  reasoning_effort: 'output_config.effort',
  response_format: 'output_config.format',
};

/** Returns the Messages API name of a field. */
export function toMessagesName(path: string): string {
  return (
    messagesNames[path] ??
    path
      .replace(/\.(?:image_url\.url|file\.file_(?:data|url))$/, '.source')
      .replace(/\.file_id$/, '.source.file_id')
  );
}
