/**
 * Translates requests of OpenAI's Responses API to the internal chat request. Fields that require a
 * stored response or a tool that the provider runs are rejected. Unsupported hints are dropped.
 *
 * Source: the types of the `openai` client, `ResponseCreateParams`.
 */
import { z } from 'zod';
import type { ChatBody, Tool } from '../chat-body.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';
import { openaiFields, sharedFields } from './completions-request.ts';
import {
  allowedMode,
  type ChatRequest,
  convertTags,
  createRejectedField,
  nameSchema,
  requiresTools,
  selectAllowedTools,
  tagFields,
  textSchema,
  withoutNulls,
} from './chat-fields.ts';
import { convertReasoning, effortSchema } from './reasoning.ts';
import { inputSchema } from './responses-input.ts';
import { notStoredReason } from './responses-input.ts';
import { flattenTools, ignoredTools, toFunctionName, toolsSchema } from './responses-tools.ts';

const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.object({
      type: z.enum(['function', 'custom']),
      name: nameSchema,
      namespace: nameSchema.nullish(),
    }),
    z.object({
      type: z.literal('allowed_tools'),
      mode: allowedMode,
      tools: z
        .array(
          z.object({
            type: z.string().max(64),
            name: nameSchema.nullish(),
            namespace: nameSchema.nullish(),
          }),
        )
        .max(512),
    }),
  ],
  'must be none, auto, required, {type: "function", name}, {type: "custom", name} or {type: "allowed_tools", mode, tools}',
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
/**
 * Values of `include` that are ignored, because they add to the results of tools that no model runs
 * here. Clients send them with `web_search`, which is ignored too.
 */
const ignoredIncludes = [
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'web_search_call.action.sources',
  'web_search_call.results',
] as const;
const ignoredInclude: ReadonlySet<string> = new Set(ignoredIncludes);

const wireRequest = z.object({
  model: sharedFields.model,
  models: sharedFields.models,
  stream: sharedFields.stream,
  temperature: sharedFields.temperature,
  top_p: sharedFields.top_p,
  presence_penalty: sharedFields.presence_penalty,
  frequency_penalty: sharedFields.frequency_penalty,
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
  ...tagFields,
  include: z
    .array(z.enum(['reasoning.encrypted_content', ...ignoredIncludes]))
    .max(16)
    .nullish(),
  truncation: z.literal('disabled', 'must be disabled: the input is never truncated').nullish(),
  store: openaiFields.store,
  background: z.boolean().nullish(),
  previous_response_id: createRejectedField(notStoredReason),
  conversation: createRejectedField(notStoredReason),
  context_management: createRejectedField(notStoredReason),
  prompt: createRejectedField('send its text in instructions and input'),
  moderation: createRejectedField('the provider’s own moderation applies'),
  top_logprobs: z.literal(0, 'must be 0: log probabilities are not returned').nullish(),
});
type WireRequest = z.infer<typeof wireRequest>;

/** Schema of the body of POST /api/v1/responses. */
export const responsesRequestSchema = wireRequest
  .refine(
    ({ tool_choice: choice, tools, input }) =>
      choice == null ||
      choice === 'auto' ||
      choice === 'none' ||
      flattenTools([...(tools ?? []), ...input.tools]).tools.length > 0,
    { path: ['tool_choice'], message: requiresTools },
  )
  .refine(({ background, store }) => !background || store !== false, {
    path: ['store'],
    message:
      'must not be false with background: true, because the response is stored for some time',
  })
  .transform(toRequest);

function toRequest(wire: WireRequest): ChatRequest {
  const system = wire.instructions;
  const { tools, forms, ignored } = flattenTools([...(wire.tools ?? []), ...wire.input.tools]);
  return {
    model: wire.model,
    ...(wire.models && { fallbacks: wire.models }),
    maxTokens: wire.max_output_tokens ?? null,
    stream: wire.stream ?? false,
    includeUsage: false,
    ...convertTags(wire),
    ...(wire.background && { background: true as const }),
    // `store` is ignored without `background`, because no such response is stored.
    ignored: [
      ...(wire.store && !wire.background ? ['store'] : []),
      ...(wire.include ?? []).flatMap((name) =>
        ignoredInclude.has(name) ? [`include.${name}`] : [],
      ),
      ...ignored,
      ...wire.input.ignored,
    ],
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
      presence_penalty: wire.presence_penalty,
      frequency_penalty: wire.frequency_penalty,
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
    ...convertToolChoice(choice, tools),
    ...withoutNulls({ parallel_tool_calls: parallel }),
  };
}

function convertToolChoice(
  choice: WireRequest['tool_choice'],
  tools: Tool[],
): Pick<ChatBody, 'tools' | 'tool_choice'> {
  if (choice == null) return { tools };
  if (typeof choice === 'string') return { tools, tool_choice: choice };
  if (choice.type !== 'allowed_tools') {
    const name = toFunctionName(choice.name, choice.namespace);
    return { tools, tool_choice: { type: 'function', function: { name } } };
  }
  // A tool without a name runs at the provider, or is the search for tools.
  const allowed = choice.tools.map(({ type, name, namespace }, index) => ({
    name: toFunctionName(name ?? type, namespace),
    path: `tool_choice.tools.${index}.name`,
  }));
  const callable = allowed.filter(({ name }) => !ignoredTools.has(name));
  return selectAllowedTools(tools, choice.mode, callable);
}

/** Field names in the Responses API, keyed by the field name in the internal chat request. */
const responsesNames: Readonly<Record<string, string>> = {
  max_tokens: 'max_output_tokens',
  reasoning_effort: 'reasoning.effort',
  response_format: 'text.format',
  verbosity: 'text.verbosity',
};

/** Returns the Responses API name of a field. */
export function toResponsesName(path: string): string {
  if (path === 'messages') return 'input';
  return (
    responsesNames[path] ??
    path.replace(/\.image_url\.url$/, '.image_url').replace(/\.file\.(file_\w+)$/, '.$1')
  );
}
