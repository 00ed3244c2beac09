/**
 * Translates requests of Anthropic's Messages API to the internal chat request. Unsupported fields
 * are rejected if ignoring them would change the answer. Unsupported hints are dropped.
 *
 * Source: the types of @anthropic-ai/sdk, `MessageCreateParams`.
 */
import { z } from 'zod';
import type { ChatBody } from '../../chat/chat-body.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import type { ChatRequest } from './chat-request.ts';
import {
  fallbacksSchema,
  modelIdSchema,
  nameSchema,
  createRejectedField,
  textSchema,
  toolNameSchema,
  withoutNulls,
} from './field-schemas.ts';
import { messageSchema, nullableCacheControlField, systemPromptSchema } from './messages-blocks.ts';
import { convertMessage, convertSystemPrompt } from './messages-input.ts';
import { isThinkingBudgetValid, thinkingBudgetIssue, thinkingSchema } from './reasoning-fields.ts';

const tool = z.object({
  type: z.literal('custom', 'must be custom: only client tools are supported').optional(),
  name: toolNameSchema,
  description: textSchema.optional(),
  input_schema: anyJsonObject,
  strict: z.boolean().nullish(),
  ...nullableCacheControlField,
});
const parallelField = { disable_parallel_tool_use: z.boolean().optional() };
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
  messages: z.array(messageSchema).min(1, 'must contain at least one message').max(4096),
  system: systemPromptSchema.optional(),
  stream: z.boolean().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  stop_sequences: z.array(z.string().max(1024)).max(4).optional(),
  tools: z.array(tool).max(512).optional(),
  tool_choice: toolChoice.optional(),
  metadata: z.object({ user_id: z.string().max(512).nullish() }).optional(),
  output_config: z
    .object({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      format: z.object({ type: z.literal('json_schema'), schema: anyJsonObject }).nullish(),
    })
    .optional(),
  service_tier: z.enum(['auto', 'standard_only']).optional(),
  speed: z.literal('standard', 'must be standard: faster tiers are not supported').nullish(),
  top_k: z.int().min(1).max(1000).optional(),
  thinking: thinkingSchema.nullish(),
  ...nullableCacheControlField,
  container: createRejectedField('tools that the provider runs are not supported'),
  mcp_servers: createRejectedField('tools that the provider runs are not supported'),
});
type WireRequest = z.infer<typeof wireRequest>;

/** Schema of the body of POST /api/v1/messages. */
export const messagesRequestSchema = wireRequest
  .refine(isThinkingBudgetValid, thinkingBudgetIssue)
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
    metadata: null,
    body: {
      messages: [...convertSystemPrompt(wire.system), ...wire.messages.flatMap(convertMessage)],
      ...convertOptions(wire),
    },
  };
}

function convertOptions(wire: WireRequest): Omit<ChatBody, 'messages'> {
  const { effort, format } = wire.output_config ?? {};
  const { stop_sequences: stop = [] } = wire;
  return {
    ...withoutNulls({
      temperature: wire.temperature,
      top_p: wire.top_p,
      top_k: wire.top_k,
      stop: stop.length > 0 ? stop : null,
      user: wire.metadata?.user_id,
      reasoning_effort: effort,
      cache_control: wire.cache_control,
    }),
    // In Anthropic's API an effort alone does not enable reasoning; `thinking` does.
    thinking: wire.thinking ?? { type: 'default' },
    ...(format && {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: format.schema, strict: true },
      },
    }),
    ...convertTools(wire),
  };
}

function convertTools({ tools = [], tool_choice: choice }: WireRequest): Partial<ChatBody> {
  if (tools.length === 0) return {};
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
