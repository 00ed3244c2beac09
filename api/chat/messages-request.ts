/**
 * Requests of Anthropic's Messages API, translated to the internal chat request. Fields without a counterpart are
 * rejected if ignoring them would change the answer; hints are dropped.
 *
 * Source: the types of @anthropic-ai/sdk, `MessageCreateParams`.
 */
import { z } from 'zod';
import type { ChatBody, ChatMessage, ContentPart } from '../../chat/chat-body.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import type { ChatRequest } from './chat-schema.ts';
import { dataMax, name, notTaken, text, toolName } from './chat-messages.ts';

const blocksMax = 1024;
const textBlock = z.object({ type: z.literal('text'), text });
const base64Source = z.object({
  type: z.literal('base64'),
  media_type: z.string().max(100),
  data: z.string().min(1).max(dataMax),
});
const urlSource = z.object({ type: z.literal('url'), url: z.string().max(dataMax) });
const imageBlock = z.object({
  type: z.literal('image'),
  source: z.discriminatedUnion('type', [base64Source, urlSource]),
});
const documentBlock = z.object({
  type: z.literal('document'),
  source: z.discriminatedUnion('type', [
    base64Source,
    z.object({ type: z.literal('text'), media_type: z.string().max(100), data: text }),
  ]),
  title: z.string().max(255).nullish(),
});
const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: name,
  content: z
    .union(
      [text, z.array(textBlock).max(blocksMax)],
      'must be a string or an array of text blocks: other tool results are not supported',
    )
    .optional(),
});
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: name,
  name,
  input: anyJsonObject,
});
/** Thinking of an earlier answer. Another model cannot read it, so it is dropped. */
const thought = z.object({ type: z.enum(['thinking', 'redacted_thinking']) });

const userMessage = z.object({
  role: z.literal('user'),
  content: z.union(
    [
      text,
      z
        .array(z.discriminatedUnion('type', [textBlock, imageBlock, documentBlock, toolResult]))
        .max(blocksMax),
    ],
    'must be a string or an array of blocks: text, image, document, tool_result',
  ),
});
const assistantMessage = z.object({
  role: z.literal('assistant'),
  content: z.union(
    [text, z.array(z.discriminatedUnion('type', [textBlock, toolUse, thought])).max(blocksMax)],
    'must be a string or an array of blocks: text, tool_use, thinking',
  ),
});
const tool = z.object({
  type: z.literal('custom', 'only client tools are supported').optional(),
  name: toolName,
  description: text.optional(),
  input_schema: anyJsonObject,
});
const single = { disable_parallel_tool_use: z.boolean().optional() };
const toolChoice = z.discriminatedUnion('type', [
  z.object({ type: z.literal('auto'), ...single }),
  z.object({ type: z.literal('any'), ...single }),
  z.object({ type: z.literal('tool'), name, ...single }),
  z.object({ type: z.literal('none') }),
]);
const wireRequest = z.object({
  model: z.string().min(1).max(256),
  models: z.array(z.string().min(1).max(256)).max(4).optional(),
  max_tokens: z.int().min(1),
  messages: z
    .array(z.discriminatedUnion('role', [userMessage, assistantMessage]))
    .min(1, 'must contain at least one message')
    .max(4096),
  system: z.union([text, z.array(textBlock).max(blocksMax)]).optional(),
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
  top_k: notTaken('most models do not have it'),
  container: notTaken('tools that the provider runs are not supported'),
  mcp_servers: notTaken('tools that the provider runs are not supported'),
});
type Wire = z.infer<typeof wireRequest>;

/** Body of POST /api/v1/messages. */
export const messagesRequest = wireRequest.transform(toRequest);

function toRequest(wire: Wire): ChatRequest {
  const system = typeof wire.system === 'string' ? wire.system : joined(wire.system ?? []);
  return {
    model: wire.model,
    ...(wire.models && { fallbacks: wire.models }),
    maxTokens: wire.max_tokens,
    stream: wire.stream ?? false,
    includeUsage: false,
    metadata: null,
    body: {
      messages: [
        ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
        ...wire.messages.flatMap(toMessages),
      ],
      ...optionsOf(wire),
    },
  };
}

function optionsOf(wire: Wire): Omit<ChatBody, 'messages'> {
  const { effort, format } = wire.output_config ?? {};
  const userId = wire.metadata?.user_id;
  const stop = wire.stop_sequences ?? [];
  return {
    ...(wire.temperature !== undefined && { temperature: wire.temperature }),
    ...(wire.top_p !== undefined && { top_p: wire.top_p }),
    ...(stop.length > 0 && { stop }),
    ...(userId != null && { user: userId }),
    ...(effort != null && { reasoning_effort: effort }),
    ...(format && {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: format.schema, strict: true },
      },
    }),
    ...toolsOf(wire),
  };
}

function toolsOf({ tools = [], tool_choice: choice }: Wire): Partial<ChatBody> {
  if (tools.length === 0) return {};
  const parallel = choice && 'disable_parallel_tool_use' in choice;
  return {
    tools: tools.map(({ name: functionName, description, input_schema: parameters }) => ({
      type: 'function',
      function: {
        name: functionName,
        ...(description !== undefined && { description }),
        parameters,
      },
    })),
    ...(choice && { tool_choice: choiceOf(choice) }),
    ...(parallel && choice.disable_parallel_tool_use && { parallel_tool_calls: false }),
  };
}

function choiceOf(choice: NonNullable<Wire['tool_choice']>): NonNullable<ChatBody['tool_choice']> {
  if (choice.type === 'any') return 'required';
  if (choice.type === 'tool') return { type: 'function', function: { name: choice.name } };
  return choice.type;
}

/** Converts a message. Tool results become separate messages, before the other content of the user's message. */
function toMessages(message: Wire['messages'][number]): ChatMessage[] {
  if (typeof message.content === 'string') {
    return [{ role: message.role, content: message.content }];
  }
  if (message.role === 'assistant') return [assistantTurn(message.content)];
  const results: ChatMessage[] = [];
  const parts: ContentPart[] = [];
  for (const block of message.content) {
    if (block.type === 'tool_result') {
      const { tool_use_id: id, content = '' } = block;
      const result = typeof content === 'string' ? content : joined(content);
      results.push({ role: 'tool', tool_call_id: id, content: result });
    } else parts.push(partOf(block));
  }
  return parts.length > 0 ? [...results, { role: 'user', content: parts }] : results;
}

type AssistantBlocks = Exclude<z.infer<typeof assistantMessage>['content'], string>;

function assistantTurn(content: AssistantBlocks): ChatMessage {
  const texts: string[] = [];
  const calls: NonNullable<ChatMessage['tool_calls']> = [];
  for (const block of content) {
    if ('text' in block) texts.push(block.text);
    if ('input' in block) {
      const { id, name: functionName, input } = block;
      const call = { name: functionName, arguments: JSON.stringify(input) };
      calls.push({ id, type: 'function', function: call });
    }
  }
  return {
    role: 'assistant',
    content: texts.join(''),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

type Part = z.infer<typeof textBlock> | z.infer<typeof imageBlock> | z.infer<typeof documentBlock>;

function partOf(block: Part): ContentPart {
  if (block.type === 'text') return { type: 'text', text: block.text };
  if (block.type === 'image') {
    const { source } = block;
    const url =
      source.type === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
    return { type: 'image_url', image_url: { url } };
  }
  const { source, title } = block;
  if (source.type === 'text') return { type: 'text', text: source.data };
  return {
    type: 'file',
    file: {
      file_data: `data:${source.media_type};base64,${source.data}`,
      ...(title != null && { filename: title }),
    },
  };
}

function joined(blocks: readonly { text: string }[]): string {
  return blocks.map((block) => block.text).join('\n');
}
