/**
 * Translates the internal chat request to Anthropic's Messages API. A field that Anthropic's API
 * does not have is rejected, unless it is a hint or its value has no effect.
 */
import type { ChatModel } from '../models.ts';
import { fieldError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import { parseExact } from '../../domain/exact-numbers.ts';
import { asText, isRecord, type JsonObject } from '../../domain/json.ts';
import {
  type AssistantMessage,
  type ChatBody,
  type ChatMessage,
  type ContentPart,
  type ToolCall,
  type ToolMessage,
} from '../chat-body.ts';
import { toReasoning, toThinkingBlock } from './anthropic-thinking.ts';
import { CallIds, callIdRules } from './call-ids.ts';
import { pickHints, withoutHints } from './hints.ts';
import { toReminder, unsupportedField, type ChatCall } from './protocol.ts';
import {
  answerTool,
  convertStrictSchema,
  toStructuredAnswer,
  type StructuredAnswer,
} from './structured-answer.ts';

/** Fields that Anthropic's API lacks, with values that can be dropped without an effect. */
const neutralValues: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  seed: [],
  logprobs: [false],
  top_logprobs: [0],
  logit_bias: [],
  presence_penalty: [0],
  frequency_penalty: [0],
  prediction: [],
};
const supportedFields: ReadonlySet<string> = new Set([
  'messages',
  'temperature',
  'top_p',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning',
  'top_k',
  'cache_control',
]);

/**
 * Throws if a field does not exist in Anthropic's API and its value has an effect.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
function throwIfUnsupported(body: ChatBody): void {
  for (const [field, value] of Object.entries(withoutHints(body))) {
    if (supportedFields.has(field)) continue;
    const allowed = neutralValues[field] ?? [];
    if (!allowed.includes(value)) throw unsupportedField(field, 'this model does not support it');
  }
}

/**
 * Translates a request to Anthropic's format.
 * @throws GatewayError UNSUPPORTED_PARAMETER if the model does not support a field; INVALID_REQUEST
 * if there is no user message, or a blank one
 */
export function encodeAnthropic(call: ChatCall): Record<string, unknown> {
  const { model, body, stream } = call;
  throwIfUnsupported(body);
  checkCacheMarks(body);
  if (body.temperature !== undefined && body.temperature > 1) {
    throw unsupportedField('temperature', 'must be at most 1 for this model');
  }
  const { thinking, effort } = toReasoning(call);
  const answer = toStructuredAnswer(
    call,
    thinking !== undefined && thinking['type'] !== 'disabled',
  );
  const { user } = pickHints(model, body);
  const config = {
    ...(effort !== undefined && { effort }),
    ...(answer.format && { format: answer.format }),
  };
  // JSON omits undefined fields.
  return {
    model: model.upstreamModel,
    messages: toTurns(model, body.messages),
    system: joinSystemPrompt(body.messages),
    temperature: body.temperature,
    top_p: body.top_p,
    top_k: body.top_k,
    stop_sequences: toStopSequences(body),
    metadata: user === undefined ? undefined : { user_id: user },
    thinking,
    ...toTools(call, answer),
    ...(Object.keys(config).length > 0 && { output_config: config }),
    ...copyCacheControl(body),
    ...(stream && { stream: true }),
  };
}

/** Maximum number of `cache_control` marks in a request to Anthropic. */
const cacheMarksMax = 4;

/** Throws if a request has too many `cache_control` marks. @throws GatewayError UNSUPPORTED_PARAMETER */
function checkCacheMarks(body: ChatBody): void {
  const marked = [
    body,
    ...(body.tools ?? []),
    ...body.messages.flatMap((message) => {
      const parts = message.role === 'assistant' ? message.blocks : message.content;
      return [message, ...(typeof parts === 'string' ? [] : parts)];
    }),
  ].filter((part) => 'cache_control' in part && part.cache_control);
  if (marked.length <= cacheMarksMax) return;
  const rule = `at most ${cacheMarksMax} parts of a request may have it with this model`;
  throw unsupportedField('cache_control', `${rule}${formatReceived(marked.length)}`);
}

/** Returns the stop sequences that Anthropic accepts: those with more than blanks. */
function toStopSequences({ stop }: ChatBody): string[] | undefined {
  const texts = [stop ?? []].flat().filter((text) => !isBlank(text));
  // JSON omits undefined fields.
  return texts.length === 0 ? undefined : texts;
}

/** Returns the `cache_control` of a part, or an empty object if it has none. */
function copyCacheControl({ cache_control: marker }: { cache_control?: JsonObject | undefined }): {
  cache_control?: JsonObject;
} {
  return marker ? { cache_control: marker } : {};
}

const isBlank = (text: string): boolean => text.trim() === '';

/** Returns the number of system messages before the conversation. */
function countLeadingSystemMessages(messages: readonly ChatMessage[]): number {
  const first = messages.findIndex(({ role }) => role !== 'system');
  return first === -1 ? messages.length : first;
}

/**
 * Joins the system messages before the conversation to one string, or to blocks if any part has
 * `cache_control`. Returns undefined if they are blank.
 */
function joinSystemPrompt(messages: readonly ChatMessage[]): string | Block[] | undefined {
  const system = messages.slice(0, countLeadingSystemMessages(messages));
  const blocks = system.flatMap((message) => (message.role === 'system' ? toBlocks(message) : []));
  if (blocks.some((block) => block['cache_control'])) return blocks;
  const texts = system.map((message) => (message.role === 'system' ? joinTexts(message) : ''));
  return texts.every(isBlank) ? undefined : texts.filter((text) => !isBlank(text)).join('\n\n');
}

type Block = JsonObject;

/** Turn of the conversation. Results of tools precede the other blocks, as Anthropic requires. */
interface Turn {
  role: 'user' | 'assistant' | 'system';
  results: Block[];
  blocks: Block[];
}

/**
 * Groups messages into turns. The roles of turns must alternate, so consecutive messages of the same
 * role form one turn. Tool results are part of the user's turn.
 */
function toTurns(model: ChatModel, messages: readonly ChatMessage[]): object[] {
  const callIds = new CallIds(callIdRules.anthropic);
  const parts = messages
    .slice(countLeadingSystemMessages(messages))
    .map((message) => toTurn(model, message, callIds))
    .filter(({ results, blocks }) => results.length + blocks.length > 0);
  const turns: Turn[] = [];
  for (const [index, part] of parts.entries()) {
    const isReminder = part.role === 'system' && !canBeSystemTurn(model, parts, index);
    const role = isReminder ? 'user' : part.role;
    const blocks = isReminder
      ? part.blocks.map(({ text, ...block }) => ({ ...block, text: toReminder(asText(text)) }))
      : part.blocks;
    const lastTurn = turns.at(-1);
    if (lastTurn?.role === role) {
      lastTurn.results.push(...part.results);
      lastTurn.blocks.push(...blocks);
    } else turns.push({ role, results: part.results, blocks });
  }
  if (turns.length === 0) {
    const message = 'must contain a user message: this model does not answer system messages alone';
    throw fieldError('INVALID_REQUEST', 'messages', message);
  }
  trimPrefill(turns.at(-1));
  return turns.map(({ role, results, blocks }) => ({ role, content: [...results, ...blocks] }));
}

function toTurn(model: ChatModel, message: ChatMessage, callIds: CallIds): Turn {
  switch (message.role) {
    case 'assistant':
      return { role: 'assistant', results: [], blocks: toAnswerBlocks(model, message, callIds) };
    case 'tool':
      return { role: 'user', results: [toToolResult(message, callIds)], blocks: [] };
    case 'system':
      return { role: 'system', results: [], blocks: toBlocks(message) };
    case 'user':
      break;
  }
  const blocks = toBlocks(message);
  if (blocks.length > 0) return { role: 'user', results: [], blocks };
  const rule = 'must contain more than blanks: this model rejects blank messages';
  throw fieldError('INVALID_REQUEST', `${message.path}.content`, rule);
}

/** Release of the first model that accepts system messages in a conversation, Claude Opus 4.8. */
const firstWithSystemTurns = Date.UTC(2026, 4, 28) / 1000;

/**
 * Returns whether a system message can keep its role. Anthropic accepts it only after a turn of the
 * user and before one of the assistant, or at the end.
 */
function canBeSystemTurn(
  { provider, created }: ChatModel,
  turns: readonly Turn[],
  index: number,
): boolean {
  if (provider !== 'anthropic' || created < firstWithSystemTurns) return false;
  const isOther = ({ role }: Turn): boolean => role !== 'system';
  const before = turns.slice(0, index).findLast(isOther);
  const after = turns.slice(index + 1).find(isOther);
  return before?.role === 'user' && after?.role !== 'user';
}

/** Removes blanks from the end of an answer that the model shall continue; they are rejected. */
function trimPrefill(turn: Turn | undefined): void {
  const last = turn?.role === 'assistant' ? turn.blocks.at(-1) : undefined;
  if (typeof last?.['text'] === 'string') last['text'] = last['text'].trimEnd();
}

/**
 * Converts the blocks of an earlier answer in their order. Thoughts of other providers are omitted,
 * because Anthropic verifies each thought; an answer without anything else is omitted too.
 */
function toAnswerBlocks(model: ChatModel, message: AssistantMessage, callIds: CallIds): Block[] {
  const blocks = message.blocks.flatMap((block): Block[] => {
    if (block.type === 'function') return [toToolUse(block, callIds)];
    if (block.type === 'thought') return toThinkingBlock(model, block);
    const text = block.type === 'text' ? block.text : block.refusal;
    const cacheFields = block.type === 'text' ? copyCacheControl(block) : {};
    return isBlank(text) ? [] : [{ type: 'text', text, ...cacheFields }];
  });
  const isOnlyThought = blocks.every(({ type }) => type !== 'text' && type !== 'tool_use');
  return isOnlyThought ? [] : blocks;
}

function toToolResult(message: ToolMessage, callIds: CallIds): Block {
  const { content, tool_call_id: id, is_error: isError } = message;
  const isText = typeof content === 'string' || content.every(({ type }) => type === 'text');
  return {
    type: 'tool_result',
    tool_use_id: callIds.ofResult(id),
    content: isText ? joinTexts(message) : toBlocks(message),
    ...(isError === true && { is_error: true }),
    ...copyCacheControl(message),
  };
}

type InputMessage = Exclude<ChatMessage, AssistantMessage>;

function joinTexts({ content }: InputMessage): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

/** Converts the content of a message to blocks. Blank texts are omitted; Anthropic rejects them. */
function toBlocks({ content }: InputMessage): Block[] {
  if (typeof content !== 'string') return content.flatMap(partToBlocks);
  return isBlank(content) ? [] : [{ type: 'text', text: content }];
}

function partToBlocks(part: ContentPart): Block[] {
  const cache = copyCacheControl(part);
  switch (part.type) {
    case 'text':
      return isBlank(part.text) ? [] : [{ type: 'text', text: part.text, ...cache }];
    case 'image_url':
      return [{ type: 'image', source: toSource(part.image_url.url), ...cache }];
    case 'file': {
      const { file_data: data, file_url: url = '', filename: title } = part.file;
      const source = data === undefined ? toSource(url) : toDocumentSource(data, part.path);
      return [{ type: 'document', source, ...(title !== undefined && { title }), ...cache }];
    }
    case 'input_audio':
    case 'video_url':
      break;
  }
  throw unsupportedField(part.path, 'this model does not accept sound or video');
}

const dataUrl = /^data:([^;]+);base64,/;

function toSource(url: string): Block {
  const [prefix, mediaType] = dataUrl.exec(url.slice(0, 200)) ?? [];
  return prefix === undefined || mediaType === undefined
    ? { type: 'url', url }
    : { type: 'base64', media_type: mediaType, data: url.slice(prefix.length) };
}

function toDocumentSource(url: string, path: string): Block {
  const { media_type: mediaType, data } = toSource(url);
  if (mediaType === 'application/pdf') return toSource(url);
  if (typeof mediaType !== 'string' || typeof data !== 'string' || !mediaType.startsWith('text/')) {
    throw unsupportedField(path, 'this model accepts only PDF and text documents');
  }
  const text = Buffer.from(data, 'base64').toString();
  return { type: 'text', media_type: 'text/plain', data: text };
}

function toToolUse(call: ToolCall, callIds: CallIds): Block {
  try {
    const input = parseExact(call.function.arguments || '{}');
    if (isRecord(input)) {
      return {
        type: 'tool_use',
        id: callIds.ofCall(call.id),
        name: call.function.name,
        // oxlint-disable-next-line no-unsafe-type-assertion -- the result of parsing JSON
        input: input as JsonObject,
        ...copyCacheControl(call),
      };
    }
  } catch {
    // Invalid JSON is rejected below, together with arguments that are not an object.
  }
  throw unsupportedField(call.path ?? 'messages', 'arguments must be a JSON object');
}

/**
 * Returns the fields `tools` and `tool_choice`.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
function toTools(
  { model, body }: ChatCall,
  { tool: answer }: StructuredAnswer,
): Record<string, unknown> {
  const tools: JsonObject[] = (body.tools ?? []).map((tool, index) => {
    const { name, description, parameters, strict } = tool.function;
    if (name === answerTool) throw unsupportedField('tools', `the name ${answerTool} is reserved`);
    const schema = { type: 'object', ...parameters };
    const isStrict = strict === true && model.provider === 'anthropic';
    return {
      name,
      ...(description !== undefined && { description }),
      input_schema: isStrict ? convertStrictSchema(schema, `tools.${index}`) : schema,
      ...(strict === true && { strict: true }),
      ...copyCacheControl(tool),
    };
  });
  if (answer) {
    const isOnlyTool = tools.length === 0 || body.tool_choice === 'none';
    return {
      tools: [...tools, answer],
      tool_choice: isOnlyTool
        ? { type: 'tool', name: answerTool }
        : { type: 'any', ...toParallelSetting(body) },
    };
  }
  const choice = toToolChoice(body);
  return tools.length === 0 ? {} : { tools, ...(choice && { tool_choice: choice }) };
}

function toParallelSetting({ parallel_tool_calls: parallel }: ChatBody): JsonObject {
  return parallel === false ? { disable_parallel_tool_use: true } : {};
}

function toToolChoice(body: ChatBody): JsonObject | undefined {
  const { tool_choice: choice } = body;
  const parallelSetting = toParallelSetting(body);
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallelSetting };
  if (typeof choice === 'object')
    return { type: 'tool', name: choice.function.name, ...parallelSetting };
  return body.parallel_tool_calls === false ? { type: 'auto', ...parallelSetting } : undefined;
}
