/** OpenAI chat-completions, spoken by the sandbox. Source: the types of the `openai` client. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Conversation, Script, Told, Wording } from './script.ts';

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: z.union([z.string(), z.array(part)]).nullish(),
});
/** What OpenAI would refuse is refused: the gateway must not send it. */
const completionRequest = z.looseObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).nullish(),
  max_tokens: z.int().positive().nullish(),
  max_completion_tokens: z.int().positive().nullish(),
  n: z.int().positive().nullish(),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).nullish(),
  tool_choice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      z.looseObject({ function: z.looseObject({ name: z.string() }) }),
    ])
    .nullish(),
});

type CompletionRequest = z.infer<typeof completionRequest>;
type Message = z.infer<typeof message>;

/** A request that can be answered. */
interface OpenaiTalk {
  talk: Conversation;
  /** Where a stream says it: in a chunk of its own when asked, or, as Mistral does, in the last one. */
  usage: 'own chunk' | 'last chunk' | 'none';
  choices: number;
}

function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((one) => one.text ?? '').join(' ');
}

function imagesOf({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type === 'image_url').length : 0;
}

function toolChoiceOf({ tool_choice: choice }: CompletionRequest): Conversation['toolChoice'] {
  return typeof choice === 'object' && choice ? { name: choice.function.name } : (choice ?? 'auto');
}

/** Reads a request; a string says what is wrong with it. */
export function readOpenai(body: unknown): Told | string {
  const parsed = completionRequest.safeParse(body);
  if (!parsed.success) return z.prettifyError(parsed.error);
  const request = parsed.data;
  if (request.stream_options && !request.stream) return 'stream_options needs stream';
  const mistral = /^(mistral|ministral|codestral)/.test(request.model);
  if (mistral && request.stream_options) return 'stream_options: Extra inputs are not permitted';
  const last = request.messages.at(-1);
  const told: OpenaiTalk = {
    usage: mistral ? 'last chunk' : request.stream_options?.include_usage ? 'own chunk' : 'none',
    choices: request.n ?? 1,
    talk: {
      model: request.model,
      text: last ? textOf(last) : '',
      allText: request.messages.map(textOf).join(' '),
      images: request.messages.reduce((sum, one) => sum + imagesOf(one), 0),
      tools: (request.tools ?? []).map((tool) => ({ name: tool.function.name })),
      toolChoice: toolChoiceOf(request),
      afterTool: last?.role === 'tool',
      maxTokens: request.max_completion_tokens ?? request.max_tokens ?? null,
    },
  };
  return {
    talk: told.talk,
    stream: request.stream ?? false,
    answer: (script) => answerOf(told, script),
    wording: (script) => wordingOf(told, script),
  };
}

const finishReasons = { end: 'stop', length: 'length', tool: 'tool_calls' } as const;

function usageOf({ usage }: Script, choices: number) {
  if (!usage) return undefined;
  const output = usage.output * choices;
  return {
    prompt_tokens: usage.input,
    completion_tokens: output,
    total_tokens: usage.input + output,
  };
}

function toolCallsOf({ toolCall }: Script) {
  if (!toolCall) return undefined;
  const call = { name: toolCall.name, arguments: JSON.stringify(toolCall.input) };
  return [{ id: 'call_sandbox_1', type: 'function', function: call }];
}

function head(model: string, object: string) {
  const created = Math.floor(Date.now() / 1000);
  return { id: `chatcmpl-${randomUUID()}`, object, created, model };
}

function answerOf({ talk, choices }: OpenaiTalk, script: Script) {
  const toolCalls = toolCallsOf(script);
  const usage = usageOf(script, choices);
  return {
    ...head(talk.model, 'chat.completion'),
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message: {
        role: 'assistant',
        content: toolCalls ? null : script.pieces.join(''),
        refusal: null,
        ...(toolCalls && { tool_calls: toolCalls }),
      },
      logprobs: null,
      finish_reason: finishReasons[script.stop],
    })),
    ...(usage && { usage }),
  };
}

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function wordingOf({ talk, usage: where, choices }: OpenaiTalk, script: Script): Wording {
  const names = head(talk.model, 'chat.completion.chunk');
  const nothingYet = where === 'own chunk' ? { usage: null } : {};
  const all = Array.from({ length: choices }, (_, index) => index);
  const chunk = (delta: unknown, reason: string | null = null, extra: object = nothingYet) =>
    all
      .map((index) => {
        const choice = { index, delta, logprobs: null, finish_reason: reason };
        return event({ ...names, choices: [choice], ...extra });
      })
      .join('');
  const calls = toolCallsOf(script)?.map((call, index) => ({ index, ...call }));
  const usage = usageOf(script, choices);
  const inLast = where === 'last chunk' && usage ? { usage } : nothingYet;
  const ownChunk = where === 'own chunk' && usage ? event({ ...names, choices: [], usage }) : '';
  return {
    start: chunk({ role: 'assistant', content: '' }),
    chunks: calls
      ? [chunk({ tool_calls: calls })]
      : script.pieces.map((content) => chunk({ content })),
    end: `${chunk({}, finishReasons[script.stop], inLast)}${ownChunk}data: [DONE]\n\n`,
    error: event({ error: { message: 'The server had an error', type: 'server_error' } }),
  };
}

/** OpenAI's error envelope. */
export function openaiError(status: number, text: string) {
  const type = status === 401 ? 'authentication_error' : 'invalid_request_error';
  return {
    error: { message: text, type: status >= 500 ? 'server_error' : type, param: null, code: null },
  };
}
