/** Parses requests to Anthropic's Messages API. Based on the types of `@anthropic-ai/sdk` and Anthropic's API reference. */
import { z } from 'zod';
import { buildResponse, buildEvents } from './anthropic-answers.ts';
import type { PromptCache } from './prompt-cache.ts';
import { findStrictSchemaError } from './strict-schemas.ts';
import type { Conversation, ParsedRequest } from './script.ts';

const cacheControl = {
  cache_control: z
    .strictObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).optional() })
    .optional(),
};
const source = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('base64'),
    media_type: z.string(),
    data: z.string().min(1),
  }),
  z.strictObject({ type: z.literal('url'), url: z.url() }),
]);
const textSource = z.strictObject({
  type: z.literal('text'),
  media_type: z.literal('text/plain'),
  data: z.string().min(1),
});
const callId = z.string().regex(/^[a-zA-Z0-9_-]+$/);
const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/);
const textBlock = z.strictObject({
  type: z.literal('text'),
  text: z.string().regex(/\S/, 'text content blocks must contain non-whitespace text'),
  ...cacheControl,
});
const imageBlock = z.strictObject({ type: z.literal('image'), source, ...cacheControl });
const blockSchema = z.discriminatedUnion('type', [
  textBlock,
  imageBlock,
  z.strictObject({
    type: z.literal('document'),
    source: z.union([source, textSource]),
    title: z.string().optional(),
    ...cacheControl,
  }),
  z.strictObject({
    type: z.literal('thinking'),
    thinking: z.string(),
    signature: z.string().startsWith('sig_', 'Invalid `signature` in `thinking` block'),
  }),
  z.strictObject({ type: z.literal('redacted_thinking'), data: z.string().min(1) }),
  z.strictObject({
    type: z.literal('tool_use'),
    id: callId,
    name: toolName,
    input: z.record(z.string(), z.unknown()),
    ...cacheControl,
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    tool_use_id: callId,
    content: z.union([
      z.string(),
      z.array(z.discriminatedUnion('type', [textBlock, imageBlock])).min(1),
    ]),
    is_error: z.boolean().optional(),
    ...cacheControl,
  }),
]);
/** Schema of a request; strict, because Anthropic rejects unknown fields. */
const messagesRequest = z.strictObject({
  model: z.string().min(1),
  max_tokens: z.int().positive(),
  messages: z
    .array(
      z.strictObject({
        role: z.enum(['user', 'assistant', 'system']),
        content: z.array(blockSchema).min(1),
      }),
    )
    .min(1),
  system: z.union([z.string(), z.array(textBlock)]).optional(),
  stream: z.boolean().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().optional(),
  top_k: z.int().optional(),
  stop_sequences: z
    .array(z.string().regex(/\S/, 'each stop sequence must contain non-whitespace'))
    .optional(),
  metadata: z.strictObject({ user_id: z.string() }).optional(),
  thinking: z
    .discriminatedUnion('type', [
      z.strictObject({
        type: z.literal('enabled'),
        budget_tokens: z.int().min(1024),
        display: z.string().optional(),
      }),
      z.strictObject({ type: z.literal('adaptive'), display: z.string().optional() }),
      z.strictObject({ type: z.literal('disabled') }),
    ])
    .optional(),
  tools: z
    .array(
      z.strictObject({
        name: toolName,
        description: z.string().optional(),
        input_schema: z.looseObject({ type: z.literal('object') }),
        strict: z.boolean().optional(),
        ...cacheControl,
      }),
    )
    .optional(),
  tool_choice: z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('auto') }),
      z.looseObject({ type: z.literal('any') }),
      z.looseObject({ type: z.literal('none') }),
      z.looseObject({ type: z.literal('tool'), name: z.string() }),
    ])
    .optional(),
  output_config: z
    .strictObject({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
      format: z.strictObject({ type: z.literal('json_schema'), schema: z.unknown() }).optional(),
    })
    .optional(),
  ...cacheControl,
});

type MessagesRequest = z.infer<typeof messagesRequest>;
type Block = z.infer<typeof blockSchema>;
type Turn = MessagesRequest['messages'][number];

function readText(one: Block): string {
  if (one.type === 'text') return one.text;
  if (one.type !== 'tool_result') return '';
  return typeof one.content === 'string' ? one.content : one.content.map(readText).join(' ');
}

function countImages(one: Block): number {
  if (one.type === 'image') return 1;
  if (one.type !== 'tool_result' || typeof one.content === 'string') return 0;
  return one.content.filter(({ type }) => type === 'image').length;
}

function parseToolChoice({ tool_choice: choice }: MessagesRequest): Conversation['toolChoice'] {
  if (choice?.type === 'tool') return { name: choice.name };
  if (choice?.type === 'any') return 'required';
  return choice?.type ?? 'auto';
}

/** Returns whether a model only supports thinking with a token budget (before Claude 4.6). */
const takesOnlyBudget = (model: string): boolean => /-4-5/.test(model);
const takesOnlyAdaptive = (model: string): boolean =>
  /-4-[78]|-5|fable/.test(model) && !takesOnlyBudget(model);
/** Returns whether a model always thinks; such a model rejects a forced tool call. */
const alwaysThinks = (model: string): boolean => /fable-5-|(opus|sonnet)-5-5/.test(model);

/** Returns whether a model accepts system messages within a conversation (from Claude Opus 4.8 on). */
const takesSystemTurns = (model: string): boolean =>
  takesOnlyAdaptive(model) && !/-4-7/.test(model);

/** Returns the error message for a system message that Anthropic rejects, otherwise null. */
function findSystemError({ model, messages }: MessagesRequest): string | null {
  for (const [index, { role }] of messages.entries()) {
    if (role !== 'system') continue;
    if (!takesSystemTurns(model)) return "role 'system' is not supported on this model";
    if (messages[index - 1]?.role !== 'user') return "role 'system' must follow a 'user' message";
    if ((messages[index + 1]?.role ?? 'assistant') !== 'assistant') {
      return "role 'system' must precede an 'assistant' message or end the array";
    }
  }
  return null;
}

/** Returns the error message for a request that Anthropic rejects, otherwise null. */
function findError(request: MessagesRequest): string | null {
  const { model, thinking, messages, tool_choice: choice } = request;
  const systemError = findSystemError(request);
  if (systemError !== null) return systemError;
  const schemas = [
    request.output_config?.format?.schema,
    ...(request.tools ?? []).map((tool) => tool.strict && tool.input_schema),
  ];
  for (const schema of schemas) {
    const schemaError = schema ? findStrictSchemaError(schema) : null;
    if (schemaError !== null) return schemaError;
  }
  const marks = JSON.stringify(request).split('"cache_control":').length - 1;
  if (marks > 4) {
    return `A maximum of 4 blocks with cache_control may be provided. Found ${marks}.`;
  }
  if (request.output_config?.effort && takesOnlyBudget(model) && !/opus-4-5/.test(model)) {
    return 'This model does not support the effort parameter.';
  }
  const forced = choice?.type === 'any' || choice?.type === 'tool';
  const isOn = thinking !== undefined && thinking.type !== 'disabled';
  if (forced && alwaysThinks(model)) {
    return 'tool_choice: type "tool" and "any" are not supported for this model.';
  }
  if (thinking?.type === 'disabled' && alwaysThinks(model)) return 'thinking: cannot be disabled';
  if (thinking?.type === 'adaptive' && takesOnlyBudget(model)) {
    return 'adaptive thinking is not supported on this model';
  }
  if (thinking?.type === 'enabled' && takesOnlyAdaptive(model)) {
    return '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".';
  }
  if (!isOn) return null;
  if (forced) return 'Thinking may not be enabled when tool_choice forces tool use.';
  if (request.temperature !== undefined && request.temperature !== 1) {
    return '`temperature` may only be set to 1 when thinking is enabled.';
  }
  if (thinking.type !== 'enabled') return null;
  if (thinking.budget_tokens >= request.max_tokens) {
    return '`max_tokens` must be greater than `thinking.budget_tokens`.';
  }
  const calls = currentTurn(messages).find(({ content }) => content.some(isCall));
  return !calls || /thinking/.test(calls.content[0]?.type ?? '')
    ? null
    : 'Expected `thinking` or `redacted_thinking`, but found `tool_use`.';
}

function isCall({ type }: Block): boolean {
  return type === 'tool_use';
}

/** Returns the assistant messages since the user's last message with anything but tool results. */
function currentTurn(messages: readonly Turn[]): readonly Turn[] {
  const start = messages.findLastIndex(
    ({ role, content }) => role === 'user' && content.some(({ type }) => type !== 'tool_result'),
  );
  return messages.slice(start + 1).filter(({ role }) => role === 'assistant');
}

function findQuestion(messages: readonly Turn[]): string {
  const texts = messages
    .filter(({ role }) => role === 'user')
    .map(({ content }) =>
      content
        .filter(({ type }) => type === 'text')
        .map(readText)
        .join(' '),
    );
  return texts.findLast((text) => text !== '') ?? '';
}

/** Looks up the prompt in the cache up to its last cache breakpoint; the whole prompt if the request sets `cache_control`. */
function lookUpCache(request: MessagesRequest, cache: PromptCache): Conversation['cache'] {
  const system = typeof request.system === 'string' ? [] : (request.system ?? []);
  const blocks = [...system, ...request.messages.flatMap(({ content }) => content)];
  const last = request.cache_control
    ? blocks.length - 1
    : blocks.findLastIndex(
        (block) => 'cache_control' in block && block.cache_control !== undefined,
      );
  return cache.lookUp(
    blocks
      .slice(0, last + 1)
      .map(readText)
      .join(' '),
  );
}

function buildConversation(request: MessagesRequest, cache: PromptCache): Conversation {
  const { messages, thinking, system = '' } = request;
  const blocks = messages.flatMap(({ content }) => content);
  const last = messages.findLast(({ role }) => role !== 'system')?.content ?? [];
  const head = typeof system === 'string' ? system : system.map(readText).join(' ');
  const isShown =
    thinking?.type === 'enabled' ||
    (thinking?.type === 'adaptive' && thinking.display === 'summarized');
  return {
    model: request.model,
    text: last.map(readText).join(' '),
    question: findQuestion(messages),
    allText: [head, ...blocks.map(readText)].join(' '),
    images: blocks.reduce((sum, block) => sum + countImages(block), 0),
    tools: (request.tools ?? []).map((tool) => ({
      name: tool.name,
      parameters: tool.input_schema,
    })),
    toolChoice: parseToolChoice(request),
    rounds: currentTurn(messages).filter(({ content }) => content.some(isCall)).length,
    afterTool: last.some(({ type }) => type === 'tool_result'),
    maxTokens: request.max_tokens,
    stops: request.stop_sequences ?? [],
    schema: request.output_config?.format?.schema ?? null,
    reasons: isShown ? 'shown' : thinking?.type === 'adaptive' ? 'hidden' : 'no',
    cache: lookUpCache(request, cache),
  };
}

/** Parses a request; returns an error message if it is invalid. */
export function readAnthropic(body: unknown, cache: PromptCache): ParsedRequest | string {
  const parsed = messagesRequest.safeParse(body);
  if (!parsed.success) return z.prettifyError(parsed.error);
  const request = parsed.data;
  const fault = findError(request);
  if (fault !== null) return fault;
  const conversation = buildConversation(request, cache);
  return {
    conversation,
    stream: request.stream ?? false,
    answer: (script) => buildResponse(conversation, script),
    events: (script) => buildEvents(conversation, script),
  };
}

/** Builds an error body in Anthropic's format. */
export function anthropicError(status: number, message: string) {
  const types: Record<number, string> = {
    401: 'authentication_error',
    429: 'rate_limit_error',
    529: 'overloaded_error',
  };
  const type = types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message } };
}
