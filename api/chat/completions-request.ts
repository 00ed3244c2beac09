/**
 * Parses requests of POST /api/v1/chat and POST /api/v1/chat/completions, which have OpenAI's
 * fields. Features that the gateway has no price for (audio output, web search, paid tiers) are
 * rejected. POST /api/v1/chat also rejects unknown fields.
 * Sources: spec §2.2, §2.3; the types of the `openai` client (`ChatCompletionCreateParams`).
 */
import { z } from 'zod';
import { anyJsonObject, createRecordSchema } from '../http/body-schema.ts';
import { metadataSchema, nullIfEmpty } from '../http/metadata.ts';
import { completionsMessagesSchema, serviceMessagesSchema } from './chat-messages.ts';
import type { ChatRequest } from './chat-request.ts';
import {
  cacheControlSchema,
  fallbacksSchema,
  cacheControlField,
  modelIdSchema,
  nameSchema,
  createRejectedField,
  textSchema,
  toolNameSchema,
} from './field-schemas.ts';
import { providerPreferencesSchema } from './provider-preferences.ts';
import {
  effortSchema,
  isThinkingBudgetValid,
  thinkingBudgetIssue,
  reasoningSchema,
  convertReasoning,
  thinkingSchema,
} from './reasoning-fields.ts';

/** Schema of the maximum tokens of an answer. `checkModels` compares it with the model's limit. */
const tokenLimitSchema = z.int().min(1);
const stop = z.string().max(1024);
const penalty = z.number().min(-2).max(2);
/** Fields of /chat and /chat/completions. `null` means the same as a missing field. */
export const sharedFields = {
  model: modelIdSchema,
  models: fallbacksSchema,
  stream: z.boolean().nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  max_tokens: tokenLimitSchema.nullish(),
  max_completion_tokens: tokenLimitSchema.nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  stop: z.union([stop, z.array(stop).max(4)], 'must be a string or up to 4 strings').nullish(),
  seed: z.int().nullish(),
  presence_penalty: penalty.nullish(),
  frequency_penalty: penalty.nullish(),
  reasoning_effort: effortSchema.nullish(),
  user: z.string().max(512).nullish(),
  metadata: metadataSchema.nullish(),
};

const tool = z.object({
  type: z.literal('function', 'must be function: tools that the provider runs are not supported'),
  function: z.object({
    name: toolNameSchema,
    description: textSchema.optional(),
    parameters: anyJsonObject.optional(),
    strict: z.boolean().nullish(),
  }),
  ...cacheControlField,
});
const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.object({ type: z.literal('function'), function: z.object({ name: nameSchema }) }),
  ],
  'must be none, auto, required or {type: "function", function: {name}}',
);
const responseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({ type: z.literal('json_schema'), json_schema: anyJsonObject }),
  ],
  { error: 'must be one of text, json_object, json_schema' },
);
/** Maximum number of answers per request (`n`). Each answer is charged. */
const answersMax = 8;
/** Fields of POST /api/v1/chat/completions that POST /api/v1/chat rejects. */
export const openaiFields = {
  n: z.int().min(1).max(answersMax).nullish(),
  tools: z.array(tool).max(512).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  response_format: responseFormat.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  logit_bias: createRecordSchema(z.number().min(-100).max(100), {
    nameLengthMax: 16,
    countMax: 1024,
  }).nullish(),
  prediction: anyJsonObject.nullish(),
  prompt_cache_key: z.string().max(1024).nullish(),
  prompt_cache_retention: z.enum(['in_memory', '24h']).nullish(),
  safety_identifier: z.string().max(512).nullish(),
  store: z.boolean().nullish(),
  verbosity: z.enum(['low', 'medium', 'high']).nullish(),
  top_k: z.int().min(1).max(1000).nullish(),
  reasoning: reasoningSchema.nullish(),
  thinking: thinkingSchema.nullish(),
  cache_control: cacheControlSchema.nullish(),
  // `modalities` and `service_tier` accept only values that mean the default.
  modalities: z.array(z.literal('text')).max(4).nullish(),
  service_tier: z.enum(['auto', 'default']).nullish(),
  stream_options: z
    .object({
      include_usage: z.boolean().nullish(),
      include_obfuscation: z.boolean().nullish(),
    })
    .nullish(),
};

/** Fields that are rejected, because ignoring them would change the answer. */
const rejectedFields = {
  provider: providerPreferencesSchema.nullish(),
  audio: createRejectedField('answers contain only text'),
  web_search_options: createRejectedField('web search is not available'),
  functions: createRejectedField('use tools'),
  function_call: createRejectedField('use tool_choice'),
};

type WireRequest = { messages: ChatRequest['body']['messages'] } & z.infer<
  z.ZodObject<typeof sharedFields>
> &
  Partial<z.infer<z.ZodObject<typeof openaiFields>>>;

/** Fields that are not sent to the provider: the gateway uses them, or they have no effect. */
const gatewayFields: ReadonlySet<string> = new Set([
  'model',
  'models',
  'messages',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'modalities',
  'service_tier',
  'metadata',
  'provider',
  'reasoning',
  'reasoning_effort',
  'thinking',
]);

function toRequest(wire: WireRequest): ChatRequest {
  const options: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(wire)) {
    if (value != null && !gatewayFields.has(field)) options[field] = value;
  }
  // Metadata is sent only with `store`, because otherwise the provider does not store it.
  if (wire.store && wire.metadata) options['metadata'] = wire.metadata;
  return {
    model: wire.model,
    ...(wire.models && { fallbacks: wire.models }),
    maxTokens: wire.max_completion_tokens ?? wire.max_tokens ?? null,
    stream: wire.stream ?? false,
    includeUsage: wire.stream_options?.include_usage ?? false,
    metadata: nullIfEmpty(wire.metadata),
    body: { messages: wire.messages, ...options, ...convertReasoning(wire) },
  };
}

/** Schema of the body of POST /api/v1/chat (spec §2.3), with OpenAI's sampling fields. */
export const chatRequestSchema = z
  .strictObject({ messages: serviceMessagesSchema, ...sharedFields })
  .transform(toRequest);

/**
 * Schema of the body of POST /api/v1/chat/completions: the fields of /chat and OpenAI's other
 * fields. Unknown fields, which OpenAI's clients may send, are dropped.
 */
export const completionsRequestSchema = z
  .object({
    messages: completionsMessagesSchema,
    ...sharedFields,
    ...openaiFields,
    ...rejectedFields,
  })
  .refine((wire) => wire.stream_options == null || wire.stream === true, {
    path: ['stream_options'],
    message: 'requires stream: true',
  })
  .refine((wire) => wire.top_logprobs == null || wire.logprobs === true, {
    path: ['top_logprobs'],
    message: 'requires logprobs: true',
  })
  .refine(isThinkingBudgetValid, thinkingBudgetIssue)
  .transform(toRequest);
