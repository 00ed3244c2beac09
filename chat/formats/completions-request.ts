/**
 * Parses requests of POST /api/v1/chat and POST /api/v1/chat/completions, which have OpenAI's
 * fields. Features that the gateway has no price for (audio output, web search, paid tiers) are
 * rejected. POST /api/v1/chat also rejects unknown fields.
 * Sources: spec §2.2, §2.3; the types of the `openai` client (`ChatCompletionCreateParams`).
 */
import { z } from 'zod';
import { readBlocks } from '../answer-blocks.ts';
import { getCalls, type ChatBody, type ChatMessage, type PartContent } from '../chat-body.ts';
import { anyJsonObject, createRecordSchema } from '../../domain/body-schema.ts';
import {
  allowedMode,
  checkJobFields,
  convertJobFields,
  convertTags,
  tagFields,
  jobFields,
  type JobFields,
  requiresTools,
  selectAllowedTools,
  type ChatRequest,
  cacheControlSchema,
  fallbacksSchema,
  cacheControlField,
  createPartsSchema,
  createRejectedField,
  fileIdSchema,
  fileSourceSchema,
  locateParts,
  modelIdSchema,
  callIdSchema,
  nameSchema,
  textSchema,
  toolNameSchema,
  withoutNulls,
} from './chat-fields.ts';
import {
  effortSchema,
  isThinkingBudgetValid,
  thinkingBudgetIssue,
  reasoningSchema,
  convertReasoning,
  thinkingSchema,
} from './reasoning.ts';

const textPart = z
  .object({ type: z.literal('text'), text: textSchema, ...cacheControlField })
  .transform(({ type, text, ...cache }): PartContent => ({ type, text, ...withoutNulls(cache) }));
const refusalPart = z.object({ type: z.literal('refusal'), refusal: textSchema });
const imageUrl = z
  .object({
    url: fileSourceSchema,
    detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
  })
  .transform(({ url, detail }) => ({ url, ...withoutNulls({ detail }) }));
/** Schema of an image part: an HTTPS URL, a base64 data URI, or the id of an uploaded picture. */
const imagePart = z
  .object({
    type: z.literal('image_url'),
    image_url: z.union([imageUrl, fileSourceSchema.transform((url) => ({ url }))]),
    ...cacheControlField,
  })
  .transform(({ type, image_url, ...cache }): PartContent => ({
    type,
    image_url,
    ...withoutNulls(cache),
  }));
const audioPart = z.object({
  type: z.literal('input_audio'),
  input_audio: z.object({ data: fileSourceSchema, format: z.enum(['wav', 'mp3']) }),
});
/** Schema of a video part, as documented by OpenRouter. */
const videoPart = z.object({
  type: z.literal('video_url'),
  video_url: z.object({ url: fileSourceSchema }),
});
/** Schema of a file part: a document as a data URI, or the id of an uploaded picture. */
const filePart = z
  .object({
    type: z.literal('file'),
    file: z.object({
      file_id: fileIdSchema.nullish(),
      file_data: fileSourceSchema.nullish(),
      filename: z.string().max(255).nullish(),
    }),
    ...cacheControlField,
  })
  .refine(({ file }) => (file.file_id == null) !== (file.file_data == null), {
    path: ['file', 'file_data'],
    message: 'is required unless there is a file_id',
  })
  .transform(({ file: { file_id: id, ...file }, cache_control }): PartContent => {
    const cacheFields = withoutNulls({ cache_control });
    return id == null
      ? { type: 'file', file: withoutNulls(file), ...cacheFields }
      : { type: 'image_url', image_url: { url: id }, ...cacheFields };
  });
const textContent = z.union([textSchema, createPartsSchema(textPart).min(1)]);

const toolCall = z.object({
  id: callIdSchema,
  type: z.literal('function'),
  function: z.object({ name: nameSchema, arguments: textSchema }),
  extra_content: anyJsonObject.nullish(),
  content_offset: z.int().min(0).nullish(),
  ...cacheControlField,
});
const systemFields = { content: textContent, name: nameSchema.nullish() };
const systemMessage = z.object({ role: z.literal('system'), ...systemFields });
const developerMessage = z.object({ role: z.literal('developer'), ...systemFields });
const userMessage = z.object({
  role: z.literal('user'),
  content: z.union([
    textSchema,
    createPartsSchema(textPart, imagePart, audioPart, videoPart, filePart).min(1),
  ]),
  name: nameSchema.nullish(),
});
const assistantMessage = z
  .object({
    role: z.literal('assistant'),
    content: z.union([textSchema, createPartsSchema(textPart, refusalPart).min(1)]).nullish(),
    name: nameSchema.nullish(),
    refusal: textSchema.nullish(),
    // An empty list is allowed, because some providers return one in answers without tool calls,
    // and callers send these answers back.
    tool_calls: z.array(toolCall).max(256).nullish(),
    // Answers contain these fields, and callers may send an answer back unchanged. Other fields of
    // answers are dropped.
    reasoning: textSchema.nullish(),
    reasoning_content: textSchema.nullish(),
    reasoning_details: z.array(anyJsonObject).max(1024).nullish(),
    extra_content: anyJsonObject.nullish(),
  })
  .refine(({ content, refusal, tool_calls: calls }) => (content ?? refusal ?? calls?.[0]) != null, {
    path: ['content'],
    message: 'is required unless there are tool_calls',
  });
const toolMessage = z.object({
  role: z.literal('tool'),
  content: textContent,
  tool_call_id: callIdSchema,
  ...cacheControlField,
});

const createMessagesSchema = <Message extends z.ZodType<WireMessage>>(message: Message) =>
  z
    .array(message)
    .min(1, 'must contain at least one message')
    .max(4096)
    .transform((messages) => messages.map((wire, index) => toMessage(wire, `messages.${index}`)));

/** Schema of the messages of POST /api/v1/chat. */
const serviceMessages = createMessagesSchema(
  z.discriminatedUnion('role', [systemMessage, userMessage, assistantMessage], {
    error: 'must be one of system, user, assistant',
  }),
);
/** Schema of the messages of POST /api/v1/chat/completions. */
const completionsMessages = createMessagesSchema(
  z.discriminatedUnion(
    'role',
    [systemMessage, developerMessage, userMessage, assistantMessage, toolMessage],
    { error: 'must be one of system, developer, user, assistant, tool' },
  ),
);

type WireMessage = z.infer<
  | typeof systemMessage
  | typeof developerMessage
  | typeof userMessage
  | typeof assistantMessage
  | typeof toolMessage
>;

function toMessage(wire: WireMessage, path: string): ChatMessage {
  if (wire.role === 'assistant') return toAnswer(wire, path);
  const content = locateParts(wire.content, `${path}.content`);
  if (wire.role === 'tool') {
    const { role, tool_call_id, cache_control } = wire;
    return { role, path, content, tool_call_id, ...withoutNulls({ cache_control }) };
  }
  const fields = { path, content, ...withoutNulls({ name: wire.name }) };
  return wire.role === 'user' ? { role: 'user', ...fields } : { role: 'system', ...fields };
}

function toAnswer(wire: z.infer<typeof assistantMessage>, path: string): ChatMessage {
  const { role, name, extra_content } = wire;
  const answer = { role, path, blocks: readBlocks(wire), ...withoutNulls({ name, extra_content }) };
  for (const [index, call] of getCalls(answer).entries()) {
    call.path = `${path}.tool_calls.${index}.function.arguments`;
  }
  return answer;
}

/** Schema of the maximum tokens of an answer. `checkModels` compares it with the model's limit. */
const tokenLimitSchema = z.int().min(1);
const stopText = z.string().max(1024);
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
  stop: z
    .union([stopText, z.array(stopText).max(4)], 'must be a string or up to 4 strings')
    .nullish(),
  seed: z.int().nullish(),
  presence_penalty: penalty.nullish(),
  frequency_penalty: penalty.nullish(),
  reasoning_effort: effortSchema.nullish(),
  user: z.string().max(512).nullish(),
  ...tagFields,
};

const tool = z.object({
  type: z.literal('function', 'must be function: tools that the provider runs are not supported'),
  function: z.object({
    name: toolNameSchema,
    description: textSchema.nullish(),
    parameters: anyJsonObject.nullish(),
    strict: z.boolean().nullish(),
  }),
  ...cacheControlField,
});
const functionChoice = z.object({
  type: z.literal('function'),
  function: z.object({ name: nameSchema }),
});
const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    functionChoice,
    z.object({
      type: z.literal('allowed_tools'),
      allowed_tools: z.object({ mode: allowedMode, tools: z.array(functionChoice).max(512) }),
    }),
  ],
  'must be none, auto, required, {type: "function", function: {name}} or {type: "allowed_tools", allowed_tools: {mode, tools}}',
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
  include_reasoning: z.boolean().nullish(),
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

const oneProvider = createRejectedField('each model of the gateway has one provider');
/**
 * Schema of OpenRouter's provider preferences. Preferences that demand a guarantee about data use,
 * the provider or the price are rejected, because the gateway cannot give it. Other preferences are
 * dropped.
 */
const providerPreferences = z.object({
  data_collection: z
    .literal('allow', 'must be allow: the gateway cannot control how a provider uses data')
    .nullish(),
  zdr: z
    .literal(false, 'must be false: the gateway cannot control how long a provider stores data')
    .nullish(),
  only: oneProvider,
  ignore: oneProvider,
  quantizations: oneProvider,
  max_price: createRejectedField('GET /api/v1/models lists the prices'),
});

/** Fields that are rejected, because ignoring them would change the answer. */
const rejectedFields = {
  provider: providerPreferences.nullish(),
  audio: createRejectedField('answers contain only text'),
  web_search_options: createRejectedField('web search is not available'),
  functions: createRejectedField('use tools'),
  function_call: createRejectedField('use tool_choice'),
};

type WireRequest = { messages: ChatMessage[] } & JobFields &
  z.infer<z.ZodObject<typeof sharedFields>> &
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
  'endUser',
  'provider',
  'reasoning',
  'include_reasoning',
  'reasoning_effort',
  'thinking',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'async',
  'webhookUrl',
  'webhookEvents',
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
    ...convertJobFields(wire),
    ...convertTags(wire),
    ...((wire.reasoning?.exclude || wire.include_reasoning === false) && {
      excludesReasoning: true,
    }),
    body: {
      messages: wire.messages,
      ...options,
      ...convertStop(wire.stop),
      ...convertTools(wire),
      ...convertFormat(wire),
      ...convertReasoning(wire),
    },
  };
}

/** Returns the field `stop`, without empty texts: no provider stops at them. */
export function convertStop(stop: string | readonly string[] | null | undefined): {
  stop?: string | string[];
} {
  const texts = [stop ?? []].flat().filter((text) => text !== '');
  if (texts.length === 0) return {};
  return { stop: typeof stop === 'string' ? stop : texts };
}

function convertFormat({ response_format: format }: WireRequest): Partial<ChatBody> {
  if (format?.type !== 'json_schema') return format ? { response_format: format } : {};
  const fields = Object.entries(format.json_schema).filter(([, value]) => value !== null);
  return { response_format: { type: format.type, json_schema: Object.fromEntries(fields) } };
}

/** Returns the fields of tools; none without tools, because providers reject them then. */
function convertTools(wire: WireRequest): Partial<ChatBody> {
  const { tools, tool_choice, parallel_tool_calls } = wire;
  if (!tools || tools.length === 0) return {};
  const callable = tools.map(({ type, function: { name, ...fields }, ...cache }) => ({
    type,
    function: { name, ...withoutNulls(fields) },
    ...withoutNulls(cache),
  }));
  const parallel = withoutNulls({ parallel_tool_calls });
  if (typeof tool_choice !== 'object' || tool_choice?.type !== 'allowed_tools') {
    return { tools: callable, ...withoutNulls({ tool_choice }), ...parallel };
  }
  const { mode, tools: allowed } = tool_choice.allowed_tools;
  const names = allowed.map(({ function: { name } }, index) => ({
    name,
    path: `tool_choice.allowed_tools.tools.${index}.function.name`,
  }));
  return { ...selectAllowedTools(callable, mode, names), ...parallel };
}

/** Schema of the body of POST /api/v1/chat (spec §2.3), with OpenAI's sampling fields. */
export const chatRequestSchema = z
  .strictObject({ messages: serviceMessages, ...sharedFields, ...jobFields })
  .superRefine(checkJobFields)
  .transform(toRequest);

/**
 * Schema of the body of POST /api/v1/chat/completions: the fields of /chat and OpenAI's other
 * fields. Unknown fields, which OpenAI's clients may send, are dropped.
 */
export const completionsRequestSchema = z
  .object({
    messages: completionsMessages,
    ...sharedFields,
    ...openaiFields,
    ...rejectedFields,
    ...jobFields,
  })
  .superRefine(checkJobFields)
  .refine((wire) => wire.stream_options == null || wire.stream === true, {
    path: ['stream_options'],
    message: 'requires stream: true',
  })
  .refine((wire) => wire.top_logprobs == null || wire.logprobs === true, {
    path: ['top_logprobs'],
    message: 'requires logprobs: true',
  })
  .refine(isThinkingBudgetValid, thinkingBudgetIssue)
  .refine(
    ({ tools, tool_choice: choice }) =>
      choice == null || choice === 'auto' || choice === 'none' || Boolean(tools?.length),
    { path: ['tool_choice'], message: requiresTools },
  )
  .transform(toRequest);
