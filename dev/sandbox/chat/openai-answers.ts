/** Answers of OpenAI's chat completions in the sandbox, whole and streamed. */
import { randomUUID } from 'node:crypto';
import type { Conversation, Script, Wording } from './script.ts';

/** A request that can be answered. */
export interface OpenaiTalk {
  talk: Conversation;
  /** Place of the usage in a stream: a chunk of its own if requested, or, as from Mistral, the last one. */
  usage: 'own chunk' | 'last chunk' | 'none';
  choices: number;
  /** Whether tool calls carry Google's thought signature. */
  signs: boolean;
  /** Whether reasoning is a part of the content, as from Mistral, and not a field of its own. */
  thinksInContent: boolean;
}

const finishReasons = {
  end: 'stop',
  sequence: 'stop',
  length: 'length',
  tool: 'tool_calls',
} as const;

function usageOf({ usage }: Script, choices: number) {
  if (!usage) return undefined;
  const output = usage.output * choices;
  return {
    prompt_tokens: usage.input,
    completion_tokens: output,
    total_tokens: usage.input + output,
    prompt_tokens_details: { cached_tokens: usage.read },
    completion_tokens_details: { reasoning_tokens: usage.reasoning * choices },
  };
}

function toolCallsOf({ toolCalls }: Script, signs: boolean) {
  if (toolCalls.length === 0) return undefined;
  return toolCalls.map(({ name, input }, index) => ({
    id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
    // Google signs the first call of a message.
    ...(signs &&
      index === 0 && { extra_content: { google: { thought_signature: `sig_${name}` } } }),
  }));
}

/** Reasoning as a part of the content. */
function thoughtPart(reasoning: string) {
  return { type: 'thinking', thinking: [{ type: 'text', text: reasoning }] };
}

function head(model: string, object: string) {
  const created = Math.floor(Date.now() / 1000);
  return { id: `chatcmpl-${randomUUID()}`, object, created, model };
}

/** Makes the whole answer. */
export function responseSchema(
  { talk, choices, signs, thinksInContent }: OpenaiTalk,
  script: Script,
) {
  const toolCalls = toolCallsOf(script, signs);
  const usage = usageOf(script, choices);
  const text = script.pieces.join('');
  const { reasoning } = script;
  const parts =
    thinksInContent && reasoning !== '' ? [thoughtPart(reasoning), { type: 'text', text }] : null;
  return {
    ...head(talk.model, 'chat.completion'),
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message: {
        role: 'assistant',
        content: parts ?? (toolCalls && text === '' ? null : text),
        refusal: null,
        annotations: [],
        ...(!parts && reasoning !== '' && { reasoning_content: reasoning }),
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

/** Makes the events of the answer as a stream. */
export function wordingOf(
  { talk, usage: where, choices, signs, thinksInContent }: OpenaiTalk,
  script: Script,
): Wording {
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
  const calls = toolCallsOf(script, signs) ?? [];
  const usage = usageOf(script, choices);
  const inLast = where === 'last chunk' && usage ? { usage } : nothingYet;
  const ownChunk = where === 'own chunk' && usage ? event({ ...names, choices: [], usage }) : '';
  const { reasoning } = script;
  return {
    start: chunk({ role: 'assistant', content: '' }),
    chunks: [
      ...(reasoning === ''
        ? []
        : thinksInContent
          ? [chunk({ content: [thoughtPart(reasoning)] })]
          : [chunk({ reasoning_content: reasoning })]),
      ...script.pieces.map((content) => chunk({ content })),
      ...calls.map((call, index) => chunk({ tool_calls: [{ index, ...call }] })),
    ],
    end: `${chunk({}, finishReasons[script.stop], inLast)}${ownChunk}data: [DONE]\n\n`,
    error: event({ error: { message: 'The server had an error', type: 'server_error' } }),
  };
}
