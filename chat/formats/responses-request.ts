/**
 * Translates requests of OpenAI's Responses API to the internal chat request. Fields that require a
 * stored response or a tool that the provider runs are rejected. Unsupported hints are dropped.
 *
 * Source: the types of the `openai` client, `ResponseCreateParams`.
 */
import { z } from 'zod';
import type { ChatBody, Tool } from '../chat-body.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';
import { metadataSchema, nullIfEmpty } from '../../domain/metadata.ts';
import type { ChatRequest } from './chat-fields.ts';
import { openaiFields, sharedFields } from './completions-request.ts';
import { nameSchema, createRejectedField, textSchema, withoutNulls } from './chat-fields.ts';
import { convertReasoning, effortSchema } from './reasoning.ts';
import { inputSchema } from './responses-input.ts';
import { notStoredReason } from './responses-input.ts';
import { flattenTools, toFunctionName, toolsSchema } from './responses-tools.ts';

const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.object({
      type: z.enum(['function', 'custom']),
      name: nameSchema,
      namespace: nameSchema.nullish(),
    }),
  ],
  'must be none, auto, required, {type: "function", name} or {type: "custom", name}',
);
const textFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      name: nameSchema,
      schema: anyJsonObject,
      description: textSchema.nullish(),
      strict: z.boolean().nullish(),
    }),
  ],
  { error: 'must be one of text, json_object, json_schema' },
);
const wireRequest = z.object({
  model: sharedFields.model,
  models: sharedFields.models,
  stream: sharedFields.stream,
  temperature: sharedFields.temperature,
  top_p: sharedFields.top_p,
  user: sharedFields.user,
  input: inputSchema,
  instructions: textSchema.nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  text: z.object({ format: textFormat.nullish(), verbosity: openaiFields.verbosity }).nullish(),
  reasoning: z
    .object({
      effort: effortSchema.nullish(),
      summary: z.enum(['auto', 'concise', 'detailed']).nullish(),
    })
    .nullish(),
  tools: toolsSchema.nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: openaiFields.parallel_tool_calls,
  prompt_cache_key: openaiFields.prompt_cache_key,
  prompt_cache_retention: openaiFields.prompt_cache_retention,
  safety_identifier: openaiFields.safety_identifier,
  service_tier: openaiFields.service_tier,
  metadata: metadataSchema.nullish(),
  include: z
    .array(z.literal('reasoning.encrypted_content', 'must be reasoning.encrypted_content'))
    .max(16)
    .nullish(),
  truncation: z.literal('disabled', 'must be disabled: the input is never truncated').nullish(),
  store: openaiFields.store,
  background: z.literal(false, 'must be false: background responses are not supported').nullish(),
  previous_response_id: createRejectedField(notStoredReason),
  conversation: createRejectedField(notStoredReason),
  context_management: createRejectedField(notStoredReason),
  prompt: createRejectedField('send its text in instructions and input'),
  moderation: createRejectedField('the provider’s own moderation applies'),
  top_logprobs: z.literal(0, 'must be 0: log probabilities are not returned').nullish(),
});
type WireRequest = z.infer<typeof wireRequest>;

/** Schema of the body of POST /api/v1/responses. */
export const responsesRequestSchema = wireRequest.transform(toRequest);

function toRequest(wire: WireRequest): ChatRequest {
  const system = wire.instructions;
  const { tools, forms, ignored } = flattenTools([...(wire.tools ?? []), ...wire.input.tools]);
  return {
    model: wire.model,
    ...(wire.models && { fallbacks: wire.models }),
    maxTokens: wire.max_output_tokens ?? null,
    stream: wire.stream ?? false,
    includeUsage: false,
    metadata: nullIfEmpty(wire.metadata),
    // `store` is ignored, because no response is stored.
    ignored: [...(wire.store ? ['store'] : []), ...ignored, ...wire.input.ignored],
    toolForms: forms,
    body: {
      messages: [
        ...(system ? [{ role: 'system' as const, path: 'instructions', content: system }] : []),
        ...wire.input.messages,
      ],
      ...convertOptions(wire),
      ...convertTools(wire, tools),
    },
  };
}

function convertOptions(wire: WireRequest): Omit<ChatBody, 'messages'> {
  const { text: output, reasoning } = wire;
  const format = output?.format;
  return {
    ...withoutNulls({
      temperature: wire.temperature,
      top_p: wire.top_p,
      user: wire.user,
      prompt_cache_key: wire.prompt_cache_key,
      prompt_cache_retention: wire.prompt_cache_retention,
      safety_identifier: wire.safety_identifier,
      verbosity: output?.verbosity,
    }),
    ...convertReasoning({ reasoning: reasoning && { effort: reasoning.effort } }),
    ...(format && format.type !== 'text' && { response_format: convertFormat(format) }),
  };
}

function convertFormat(
  format: z.infer<typeof textFormat>,
): NonNullable<ChatBody['response_format']> {
  if (format.type !== 'json_schema') return format;
  const { type, name: title, schema, description, strict } = format;
  return { type, json_schema: { name: title, schema, ...withoutNulls({ description, strict }) } };
}

function convertTools(
  { tool_choice: choice, parallel_tool_calls: parallel }: WireRequest,
  tools: Tool[],
): Partial<ChatBody> {
  if (tools.length === 0) return {};
  return {
    tools,
    ...(choice && { tool_choice: typeof choice === 'string' ? choice : toFunctionChoice(choice) }),
    ...withoutNulls({ parallel_tool_calls: parallel }),
  };
}

function toFunctionChoice({ name, namespace }: Exclude<z.infer<typeof toolChoice>, string>) {
  return { type: 'function' as const, function: { name: toFunctionName(name, namespace) } };
}
