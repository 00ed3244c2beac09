/** Formats chat responses in the gateway's format, or in OpenAI's with additional fields. */
import type { ChatAnswer, StreamStep } from '../protocols/protocol.ts';
import type { ChatBill, ChatRun } from '../chat-run.ts';
import type { FailedTry } from '../candidates.ts';
import type { TokenUsage } from '../bill.ts';
import type { GatewayError } from '../../domain/errors.ts';
import { formatEvent } from '../../domain/event-lines.ts';
import { formatOpenaiError } from '../../domain/error-bodies.ts';
import { asRecord } from '../../domain/json.ts';
import type { ChatRequest } from './chat-fields.ts';

/** Properties of a chat that its response contains. */
export type PresentedChat = Pick<ChatRun, 'id' | 'servedBy' | 'tried' | 'streamMetadata' | 'usage'>;

/** Chat and request whose response a presentation formats. */
export interface ChatContext {
  chat: PresentedChat;
  request: ChatRequest;
  requestId: string;
}

/** Functions that format the response bodies and stream events of a chat endpoint. */
export interface Presentation {
  /** Text that keeps an idle stream open. */
  keepalive: string;
  /** Formats an answer that is not streamed. */
  body: (context: ChatContext, answer: ChatAnswer, bill: ChatBill) => string;
  /** Formats the next steps of a stream. Returns an empty string if there is nothing to send. */
  steps: (context: ChatContext, steps: readonly StreamStep[]) => string;
  /** Formats the last events of a complete stream. */
  end: (context: ChatContext, bill: ChatBill) => string;
  /** Formats the last events of a failed stream, which does not end with `[DONE]`. */
  failure: (context: ChatContext, error: GatewayError, bill: ChatBill | null) => string;
}

/**
 * Comment that keeps an idle stream open. No blank line follows it, because older versions of
 * OpenAI's client for Go parse an event without data at each blank line.
 */
export const commentKeepalive = ': keepalive\n';

const doneEvent = 'data: [DONE]\n\n';

function formatServiceUsage(usage: TokenUsage) {
  const { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens } = usage;
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens,
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(reasoningTokens && { reasoningTokens }),
  };
}

/** Formats the token usage twice: with OpenAI's field names and with the gateway's. */
function formatBothUsages(usage: TokenUsage): Record<string, unknown> {
  const serviceUsage = formatServiceUsage(usage);
  const {
    cachedInputTokens = 0,
    cacheWriteTokens = 0,
    audioInputTokens = 0,
    reasoningTokens = 0,
  } = usage;
  return {
    prompt_tokens: serviceUsage.inputTokens,
    completion_tokens: serviceUsage.outputTokens,
    total_tokens: serviceUsage.totalTokens,
    prompt_tokens_details: {
      cached_tokens: cachedInputTokens,
      cache_write_tokens: cacheWriteTokens,
      audio_tokens: audioInputTokens,
    },
    completion_tokens_details: {
      reasoning_tokens: reasoningTokens,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
    ...serviceUsage,
  };
}

/** Returns the field `tried` (errors of models that failed before one answered), if any failed. */
export function formatTried({ tried }: PresentedChat): { tried?: readonly FailedTry[] } {
  return tried.length > 0 ? { tried } : {};
}

/** Returns the gateway's ids of a chat and its model, which replace the provider's ids. */
function formatIds({ id, servedBy }: PresentedChat): { id: string; model: string } {
  return { id, model: servedBy.model };
}

function formatServiceEnd(
  chat: PresentedChat,
  finishReason: string | null,
  bill: ChatBill,
): object {
  const { creditsConsumed } = bill;
  return {
    finishReason,
    usage: formatServiceUsage(bill.usage),
    creditsConsumed,
    ...formatTried(chat),
  };
}

/** Format of POST /api/v1/chat (spec §2.4). */
export const servicePresentation: Presentation = {
  keepalive: commentKeepalive,
  body: ({ chat }, { text: content, finishReason }, bill) =>
    JSON.stringify({ ...formatIds(chat), content, ...formatServiceEnd(chat, finishReason, bill) }),
  steps({ chat }, steps) {
    const delta = steps.map((step) => step.text).join('');
    return delta === '' ? '' : formatEvent({ ...formatIds(chat), type: 'delta', delta });
  },
  end: ({ chat }, bill) =>
    formatEvent({
      ...formatIds(chat),
      type: 'done',
      ...formatServiceEnd(chat, chat.streamMetadata.finishReason, bill),
    }) + doneEvent,
  failure: ({ chat, requestId }, { code: error, message }, bill) =>
    formatEvent({
      ...formatIds(chat),
      type: 'error',
      error,
      message,
      requestId,
      ...(bill && { usage: formatServiceUsage(bill.usage), creditsConsumed: bill.creditsConsumed }),
    }),
};

type Fields = Record<string, unknown>;

/** Returns a completion or a chunk without the reasoning of the model. */
function withoutReasoning(answer: Fields): Fields {
  const choices = Array.isArray(answer['choices']) ? answer['choices'].map(asRecord) : [];
  return { ...answer, choices: choices.map(omitReasoning) };
}

function omitReasoning(choice: Fields): Fields {
  const name = 'delta' in choice ? 'delta' : 'message';
  const {
    reasoning: _text,
    reasoning_content: _content,
    reasoning_details: _details,
    ...rest
  } = asRecord(choice[name]);
  return { ...choice, [name]: rest };
}

/** Returns whether a chunk contains more than reasoning that was removed from it. */
function hasContent({ choices }: Fields): boolean {
  if (!Array.isArray(choices) || choices.length === 0) return true;
  return choices.map(asRecord).some(({ delta, finish_reason: reason }) => {
    return reason != null || Object.keys(asRecord(delta)).length > 0;
  });
}

/** Format of POST /api/v1/chat/completions: OpenAI's, with the gateway's additional fields. */
export const completionsPresentation: Presentation = {
  keepalive: commentKeepalive,
  body: ({ chat, request }, { completion, text }, bill) =>
    JSON.stringify({
      ...(request.excludesReasoning ? withoutReasoning(completion) : completion),
      ...formatIds(chat),
      content: text,
      usage: formatBothUsages(bill.usage),
      creditsConsumed: bill.creditsConsumed,
      ...formatTried(chat),
    }),
  steps: ({ chat, request }, steps) =>
    steps
      .map(({ chunk }) => (request.excludesReasoning ? withoutReasoning(chunk) : chunk))
      .filter(hasContent)
      .map((chunk) => formatEvent({ ...chunk, ...formatIds(chat) }))
      .join(''),
  end({ chat, request }, bill) {
    if (!request.includeUsage) return doneEvent;
    return (
      formatEvent({
        ...formatIds(chat),
        object: 'chat.completion.chunk',
        created: chat.streamMetadata.head.created,
        choices: [],
        usage: formatBothUsages(bill.usage),
        creditsConsumed: bill.creditsConsumed,
        ...formatTried(chat),
      }) + doneEvent
    );
  },
  // The `openai` clients throw an error for a chunk with an `error` field.
  failure: ({ requestId }, error, bill) =>
    formatEvent({
      ...formatOpenaiError(error, requestId),
      ...(bill && { creditsConsumed: bill.creditsConsumed }),
    }),
};
