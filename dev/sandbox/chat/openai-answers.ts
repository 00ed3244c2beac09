/** Builds responses in the format of OpenAI's chat completions, complete and streamed. */
import { randomUUID } from 'node:crypto';
import type { Conversation, Script, StreamEvents } from './script.ts';

/** Valid request, with the details that differ between providers. */
export interface OpenaiRequest {
  conversation: Conversation;
  /** Where a stream reports usage: in a separate chunk if requested, or in the last chunk (Mistral). */
  usage: 'own chunk' | 'last chunk' | 'none';
  choices: number;
  /** Whether tool calls have a thought signature (Google). */
  signs: boolean;
  /** Whether reasoning is a part of the content (Mistral) instead of a separate field. */
  thinksInContent: boolean;
}

const finishReasons = {
  end: 'stop',
  sequence: 'stop',
  length: 'length',
  tool: 'tool_calls',
} as const;

function buildUsage({ usage }: Script, choices: number) {
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

function buildToolCalls({ toolCalls }: Script, signs: boolean) {
  if (toolCalls.length === 0) return undefined;
  return toolCalls.map(({ name, input }, index) => ({
    id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
    // Only the first call of a message has a signature.
    ...(signs &&
      index === 0 && { extra_content: { google: { thought_signature: `sig_${name}` } } }),
  }));
}

/** Builds a content part with reasoning. */
function buildReasoningPart(reasoning: string) {
  return { type: 'thinking', thinking: [{ type: 'text', text: reasoning }] };
}

function buildHead(model: string, object: string) {
  const created = Math.floor(Date.now() / 1000);
  return { id: `chatcmpl-${randomUUID()}`, object, created, model };
}

/** Builds the complete response. */
export function buildResponse(
  { conversation, choices, signs, thinksInContent }: OpenaiRequest,
  script: Script,
) {
  const toolCalls = buildToolCalls(script, signs);
  const usage = buildUsage(script, choices);
  const text = script.pieces.join('');
  const { reasoning } = script;
  const parts =
    thinksInContent && reasoning !== ''
      ? [buildReasoningPart(reasoning), { type: 'text', text }]
      : null;
  return {
    ...buildHead(conversation.model, 'chat.completion'),
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

/** Builds the events of a streamed response. */
export function buildEvents(
  { conversation, usage: where, choices, signs, thinksInContent }: OpenaiRequest,
  script: Script,
): StreamEvents {
  const names = buildHead(conversation.model, 'chat.completion.chunk');
  const nothingYet = where === 'own chunk' ? { usage: null } : {};
  const all = Array.from({ length: choices }, (_, index) => index);
  const chunk = (delta: unknown, reason: string | null = null, extra: object = nothingYet) =>
    all
      .map((index) => {
        const choice = { index, delta, logprobs: null, finish_reason: reason };
        return event({ ...names, choices: [choice], ...extra });
      })
      .join('');
  const calls = buildToolCalls(script, signs) ?? [];
  const usage = buildUsage(script, choices);
  const inLast = where === 'last chunk' && usage ? { usage } : nothingYet;
  const ownChunk = where === 'own chunk' && usage ? event({ ...names, choices: [], usage }) : '';
  const { reasoning } = script;
  return {
    start: chunk({ role: 'assistant', content: '' }),
    chunks: [
      ...(reasoning === ''
        ? []
        : thinksInContent
          ? [chunk({ content: [buildReasoningPart(reasoning)] })]
          : [chunk({ reasoning_content: reasoning })]),
      ...script.pieces.map((content) => chunk({ content })),
      ...calls.map((call, index) => chunk({ tool_calls: [{ index, ...call }] })),
    ],
    end: `${chunk({}, finishReasons[script.stop], inLast)}${ownChunk}data: [DONE]\n\n`,
    error: event({ error: { message: 'The server had an error', type: 'server_error' } }),
  };
}
