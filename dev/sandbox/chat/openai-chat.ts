/**
 * Parses requests to OpenAI's chat completions, with the differences between OpenAI, Google, Mistral, DeepSeek, Moonshot AI
 * and Xiaomi. Based on the types of the `openai` client and the providers' API references.
 */
import { z } from 'zod';
import { buildResponse, buildEvents, type OpenaiRequest } from './openai-answers.ts';
import { findNameError, findReasoningError } from './openai-options.ts';
import type { PromptCache } from './prompt-cache.ts';
import type { Conversation, ParsedRequest } from './script.ts';

const partSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({ type: z.literal('refusal'), refusal: z.string() }),
  z.strictObject({
    type: z.literal('image_url'),
    image_url: z.strictObject({ url: z.string(), detail: z.string().optional() }),
  }),
  z.strictObject({
    type: z.literal('input_audio'),
    input_audio: z.strictObject({ data: z.string(), format: z.string() }),
  }),
  z.strictObject({
    type: z.literal('video_url'),
    video_url: z.strictObject({ url: z.string() }),
  }),
  z.strictObject({
    type: z.literal('file'),
    file: z.strictObject({ file_data: z.string(), filename: z.string().optional() }),
  }),
]);
const extraContent = z.looseObject({
  google: z.looseObject({ thought_signature: z.string().optional() }).optional(),
});
const toolCall = z.strictObject({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.strictObject({ name: z.string(), arguments: z.string() }),
  extra_content: extraContent.optional(),
});
/** Schema of a message; strict, because these providers reject unknown fields. */
const messageSchema = z.strictObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: z.union([z.string(), z.array(partSchema)]).nullish(),
  name: z.string().optional(),
  refusal: z.string().nullish(),
  tool_calls: z.array(toolCall).optional(),
  tool_call_id: z.string().optional(),
  extra_content: extraContent.optional(),
  reasoning_content: z.string().optional(),
});
/** Schema of a request. */
const completionRequest = z.looseObject({
  model: z.string().min(1),
  messages: z.array(messageSchema).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).nullish(),
  max_tokens: z.int().positive().nullish(),
  max_completion_tokens: z.int().positive().nullish(),
  n: z.int().positive().nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  reasoning_effort: z.string().nullish(),
  thinking: z.strictObject({ type: z.enum(['enabled', 'disabled']) }).optional(),
  reasoning: z.strictObject({ enabled: z.boolean() }).optional(),
  response_format: z
    .looseObject({
      type: z.string(),
      json_schema: z.looseObject({ name: z.string(), schema: z.unknown().optional() }).optional(),
    })
    .nullish(),
  tools: z
    .array(
      z.strictObject({
        type: z.literal('function'),
        function: z.strictObject({
          name: z.string(),
          description: z.string().optional(),
          parameters: z.unknown().optional(),
          strict: z.boolean().nullish(),
        }),
      }),
    )
    .nullish(),
  tool_choice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      z.looseObject({ function: z.looseObject({ name: z.string() }) }),
    ])
    .nullish(),
});

type CompletionRequest = z.infer<typeof completionRequest>;
type Message = z.infer<typeof messageSchema>;

const isGoogle = (model: string): boolean => model.startsWith('gemini');
const isMistral = (model: string): boolean => /^(mistral|ministral|codestral)/.test(model);
/** Returns whether a model returns `reasoning_content` and requires it in later requests with tool calls. */
const returnsReasoning = (model: string): boolean => /^(deepseek|kimi|mimo)/.test(model);

function readText({ content }: Message): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join(' ');
}

function countImages({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type === 'image_url').length : 0;
}

function parseToolChoice({ tool_choice: choice }: CompletionRequest): Conversation['toolChoice'] {
  return typeof choice === 'object' && choice ? { name: choice.function.name } : (choice ?? 'auto');
}

/** Returns the messages after the user's last message. */
function currentTurn(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1);
}

/** Returns the error message for a request that the model's provider rejects, otherwise null. */
function findError(request: CompletionRequest): string | null {
  const { model, messages } = request;
  const optionError = findReasoningError(request) ?? findNameError(model, listNames(request));
  if (optionError !== null) return optionError;
  for (const { role, tool_calls: calls, ...fields } of currentTurn(messages)) {
    if (role !== 'assistant' || !calls) continue;
    const [first] = calls;
    const signature = first?.extra_content?.google?.thought_signature ?? '';
    if (isGoogle(model) && !model.startsWith('gemini-2') && !/^(sig_|skip_)/.test(signature)) {
      return 'Function call is missing a thought_signature in functionCall parts.';
    }
    if (returnsReasoning(model) && fields.reasoning_content === undefined) {
      return 'thinking is enabled but reasoning_content is missing in assistant tool call message';
    }
  }
  for (const { tool_calls: calls = [], content, ...fields } of messages) {
    const hasVideo = Array.isArray(content) && content.some(({ type }) => type === 'video_url');
    if (hasVideo && !model.startsWith('kimi')) return "Unknown part type: 'video_url'";
    const isForeign = fields.extra_content ?? calls.find((call) => call.extra_content);
    if (isForeign && !isGoogle(model)) return "Unrecognized request argument: 'extra_content'";
    if (fields.reasoning_content !== undefined && !returnsReasoning(model)) {
      return "Unrecognized request argument: 'reasoning_content'";
    }
  }
  return null;
}

/** Returns the names of the functions in the tools, the choice and the earlier calls of a request. */
function listNames({ tools, tool_choice: choice, messages }: CompletionRequest): string[] {
  return [
    ...(tools ?? []).map((tool) => tool.function.name),
    ...(typeof choice === 'object' && choice ? [choice.function.name] : []),
    ...messages.flatMap(({ tool_calls: calls = [] }) => calls.map((call) => call.function.name)),
  ];
}

function findSchema({ response_format: format }: CompletionRequest): unknown {
  if (format?.type === 'json_schema') return format.json_schema?.schema ?? {};
  const properties = { text: { type: 'string' } };
  return format?.type === 'json_object' ? { type: 'object', properties } : null;
}

function findReasoning({
  model,
  reasoning_effort: effort,
}: CompletionRequest): Conversation['reasons'] {
  if (returnsReasoning(model)) return 'shown';
  if (effort == null || effort === 'none') return 'no';
  if (isMistral(model)) return 'shown';
  return model.startsWith('gpt-5') ? 'hidden' : 'no';
}

/** Minimum size in tokens of a system message that OpenAI caches. */
const cachedTokensMin = 1024;

function lookUpCache({ messages }: CompletionRequest, cache: PromptCache): Conversation['cache'] {
  const system = messages.filter(({ role }) => role === 'system').map(readText);
  const { read } = cache.lookUp(system.join(' '));
  return { read: read >= cachedTokensMin ? read : 0, write: 0 };
}

/** Returns true for a message that is only a note of the program that sends it, to which models do not reply. */
const isReminder = (message: Message): boolean =>
  /^<system-reminder>[^]*<\/system-reminder>\s*$/.test(readText(message));

function buildConversation(request: CompletionRequest, cache: PromptCache): Conversation {
  const { messages } = request;
  const last = messages.findLast((message) => !isReminder(message)) ?? messages.at(-1);
  const question = messages.findLast((message) => message.role === 'user' && !isReminder(message));
  return {
    model: request.model,
    text: last ? readText(last) : '',
    question: question ? readText(question) : '',
    allText: messages.map(readText).join(' '),
    images: messages.reduce((sum, message) => sum + countImages(message), 0),
    tools: (request.tools ?? []).map(({ function: { name, parameters } }) => ({
      name,
      parameters,
    })),
    toolChoice: parseToolChoice(request),
    rounds: currentTurn(messages).filter((message) => message.tool_calls).length,
    afterTool: last?.role === 'tool',
    maxTokens: request.max_completion_tokens ?? request.max_tokens ?? null,
    stops: [request.stop ?? []].flat(),
    schema: findSchema(request),
    reasons: findReasoning(request),
    cache: lookUpCache(request, cache),
  };
}

/** Parses a request; returns an error message if it is invalid. */
export function readOpenai(body: unknown, cache: PromptCache): ParsedRequest | string {
  const parsed = completionRequest.safeParse(body);
  if (!parsed.success) return z.prettifyError(parsed.error);
  const request = parsed.data;
  if (request.stream_options && !request.stream) return 'stream_options needs stream';
  const mistral = isMistral(request.model);
  if (mistral && request.stream_options) return 'stream_options: Extra inputs are not permitted';
  const fault = findError(request);
  if (fault !== null) return fault;
  const parts: OpenaiRequest = {
    usage: mistral ? 'last chunk' : request.stream_options?.include_usage ? 'own chunk' : 'none',
    choices: request.n ?? 1,
    signs: isGoogle(request.model),
    thinksInContent: mistral,
    conversation: buildConversation(request, cache),
  };
  return {
    conversation: parts.conversation,
    stream: request.stream ?? false,
    answer: (script) => buildResponse(parts, script),
    events: (script) => buildEvents(parts, script),
  };
}

/** Builds an error body in OpenAI's format. */
export function openaiError(status: number, text: string) {
  const type = status === 401 ? 'authentication_error' : 'invalid_request_error';
  return {
    error: { message: text, type: status >= 500 ? 'server_error' : type, param: null, code: null },
  };
}
