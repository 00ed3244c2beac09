/** Anthropic Messages, spoken by the sandbox. Source: the types of `@anthropic-ai/sdk`. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Conversation, Script, Told, Wording } from './script.ts';

const source = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('base64'),
    media_type: z.string(),
    data: z.string().min(1),
  }),
  z.strictObject({ type: z.literal('url'), url: z.url() }),
]);
const block = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string().min(1) }),
  z.strictObject({ type: z.literal('image'), source }),
  z.strictObject({ type: z.literal('document'), source }),
  z.strictObject({
    type: z.literal('tool_use'),
    id: z.string().min(1),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    tool_use_id: z.string().min(1),
    content: z.string(),
  }),
]);
/** Strict: what Anthropic does not know, it refuses. */
const messagesRequest = z.strictObject({
  model: z.string().min(1),
  max_tokens: z.int().positive(),
  messages: z
    .array(z.strictObject({ role: z.enum(['user', 'assistant']), content: z.array(block).min(1) }))
    .min(1),
  system: z.string().optional(),
  stream: z.boolean().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().optional(),
  stop_sequences: z.array(z.string()).optional(),
  metadata: z.strictObject({ user_id: z.string() }).optional(),
  tools: z
    .array(
      z.strictObject({
        name: z.string(),
        description: z.string().optional(),
        input_schema: z.looseObject({ type: z.literal('object') }),
        strict: z.boolean().optional(),
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
  output_config: z.looseObject({}).optional(),
});

type MessagesRequest = z.infer<typeof messagesRequest>;
type Block = z.infer<typeof block>;

function textOf(one: Block): string {
  if (one.type === 'text') return one.text;
  return one.type === 'tool_result' ? one.content : '';
}

function toolChoiceOf({ tool_choice: choice }: MessagesRequest): Conversation['toolChoice'] {
  if (choice?.type === 'tool') return { name: choice.name };
  if (choice?.type === 'any') return 'required';
  return choice?.type ?? 'auto';
}

/** Reads a request; a string says what is wrong with it. */
export function readAnthropic(body: unknown): Told | string {
  const parsed = messagesRequest.safeParse(body);
  if (!parsed.success) return z.prettifyError(parsed.error);
  const request = parsed.data;
  const blocks = request.messages.flatMap(({ content }) => content);
  const last = request.messages.at(-1)?.content ?? [];
  const talk: Conversation = {
    model: request.model,
    text: last.map(textOf).join(' '),
    allText: [request.system ?? '', ...blocks.map(textOf)].join(' '),
    images: blocks.filter(({ type }) => type === 'image').length,
    tools: request.tools ?? [],
    toolChoice: toolChoiceOf(request),
    afterTool: last.some(({ type }) => type === 'tool_result'),
    maxTokens: request.max_tokens,
  };
  return {
    talk,
    stream: request.stream ?? false,
    answer: (script) => answerOf(talk, script),
    wording: (script) => wordingOf(talk, script),
  };
}

const stopReasons = { end: 'end_turn', length: 'max_tokens', tool: 'tool_use' } as const;

function toolUseOf({ toolCall }: Script) {
  return toolCall && { type: 'tool_use', id: 'toolu_sandbox_1', ...toolCall };
}

function answerOf(talk: Conversation, script: Script) {
  const toolUse = toolUseOf(script);
  return {
    id: `msg_${randomUUID()}`,
    type: 'message',
    role: 'assistant',
    model: talk.model,
    content: [toolUse ?? { type: 'text', text: script.pieces.join('') }],
    stop_reason: stopReasons[script.stop],
    stop_sequence: null,
    ...(script.usage && {
      usage: { input_tokens: script.usage.input, output_tokens: script.usage.output },
    }),
  };
}

function event(data: { type: string; [field: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

function wordingOf(talk: Conversation, script: Script): Wording {
  const { usage } = script;
  const toolUse = toolUseOf(script);
  const message = {
    id: `msg_${randomUUID()}`,
    type: 'message',
    role: 'assistant',
    model: talk.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(usage && { usage: { input_tokens: usage.input, output_tokens: 1 } }),
  };
  const first = toolUse ? { ...toolUse, input: {} } : { type: 'text', text: '' };
  const json = JSON.stringify(script.toolCall?.input);
  const deltas = toolUse
    ? [json.slice(0, 5), json.slice(5)].map((text) => ({
        type: 'input_json_delta',
        partial_json: text,
      }))
    : script.pieces.map((text) => ({ type: 'text_delta', text }));
  return {
    start:
      event({ type: 'message_start', message }) +
      event({ type: 'content_block_start', index: 0, content_block: first }) +
      event({ type: 'ping' }),
    chunks: deltas.map((delta) => event({ type: 'content_block_delta', index: 0, delta })),
    end:
      event({ type: 'content_block_stop', index: 0 }) +
      event({
        type: 'message_delta',
        delta: { stop_reason: stopReasons[script.stop], stop_sequence: null },
        ...(usage && { usage: { output_tokens: usage.output } }),
      }) +
      event({ type: 'message_stop' }),
    error: event({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
  };
}

/** Anthropic's error envelope. */
export function anthropicError(status: number, message: string) {
  const types: Record<number, string> = {
    401: 'authentication_error',
    429: 'rate_limit_error',
    529: 'overloaded_error',
  };
  const type = types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message } };
}
