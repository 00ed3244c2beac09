/**
 * Formats the responses of chats (design §6) in the gateway's own format, or as a superset of
 * OpenAI's.
 */
import type { ChatAnswer, StreamStep } from '../../chat/protocols/protocol.ts';
import type { ChatBill, OpenChat } from '../../chat/open-chat.ts';
import type { FailedTry } from '../../chat/chat-candidates.ts';
import type { TokenUsage } from '../../chat/chat-price.ts';
import type { GatewayError } from '../../domain/errors.ts';
import { openaiError } from '../http/error-bodies.ts';
import type { ChatRequest } from './chat-request.ts';

/** Chat and request that a presentation formats. */
export interface ChatContext {
  chat: OpenChat;
  request: ChatRequest;
  requestId: string;
}

/** Format of response bodies and stream events. */
export interface Presentation {
  /** Formats an answer that is not streamed. */
  body: (context: ChatContext, answer: ChatAnswer, bill: ChatBill) => string;
  /** Formats steps as stream text; empty if they have nothing to send. */
  steps: (context: ChatContext, steps: readonly StreamStep[]) => string;
  /** Formats the end of a complete stream. */
  end: (context: ChatContext, bill: ChatBill) => string;
  /** Formats the end of a failed stream, without `[DONE]`. */
  failure: (context: ChatContext, error: GatewayError, bill: ChatBill | null) => string;
}

const done = 'data: [DONE]\n\n';

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function serviceUsage(usage: TokenUsage) {
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

/** Formats usage with OpenAI's field names and with the gateway's. */
function bothUsages(usage: TokenUsage): Record<string, unknown> {
  const both = serviceUsage(usage);
  const { cachedInputTokens = 0, cacheWriteTokens = 0, reasoningTokens = 0 } = usage;
  return {
    prompt_tokens: both.inputTokens,
    completion_tokens: both.outputTokens,
    total_tokens: both.totalTokens,
    prompt_tokens_details: {
      cached_tokens: cachedInputTokens,
      cache_write_tokens: cacheWriteTokens,
    },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
    ...both,
  };
}

/** Returns `tried`: the errors of models that failed before one answered; empty if none failed. */
export function triesOf({ tried }: OpenChat): { tried?: readonly FailedTry[] } {
  return tried.length > 0 ? { tried } : {};
}

/** Returns the gateway's ids of the chat and its model; they replace the provider's ids. */
function idsOf({ id, servedBy }: OpenChat): { id: string; model: string } {
  return { id, model: servedBy.model };
}

function serviceEnd(chat: OpenChat, finishReason: string | null, bill: ChatBill): object {
  const { creditsConsumed } = bill;
  return { finishReason, usage: serviceUsage(bill.usage), creditsConsumed, ...triesOf(chat) };
}

/** Format of POST /api/v1/chat (spec §2.4). */
export const servicePresentation: Presentation = {
  body: ({ chat }, { text: content, finishReason }, bill) =>
    JSON.stringify({ ...idsOf(chat), content, ...serviceEnd(chat, finishReason, bill) }),
  steps({ chat }, steps) {
    const delta = steps.map((step) => step.text).join('');
    return delta === '' ? '' : event({ ...idsOf(chat), type: 'delta', delta });
  },
  end: ({ chat }, bill) =>
    event({
      ...idsOf(chat),
      type: 'done',
      ...serviceEnd(chat, chat.streamMetadata.finishReason, bill),
    }) + done,
  failure: ({ chat, requestId }, { code: error, message }, bill) =>
    event({
      ...idsOf(chat),
      type: 'error',
      error,
      message,
      requestId,
      ...(bill && { usage: serviceUsage(bill.usage), creditsConsumed: bill.creditsConsumed }),
    }),
};

/** Format of POST /api/v1/chat/completions: OpenAI's envelope with the gateway's own fields. */
export const completionsPresentation: Presentation = {
  body: ({ chat }, { completion, text }, bill) =>
    JSON.stringify({
      ...completion,
      ...idsOf(chat),
      content: text,
      usage: bothUsages(bill.usage),
      creditsConsumed: bill.creditsConsumed,
      ...triesOf(chat),
    }),
  steps: ({ chat }, steps) =>
    steps.map(({ chunk }) => (chunk ? event({ ...chunk, ...idsOf(chat) }) : '')).join(''),
  end({ chat, request }, bill) {
    if (!request.includeUsage) return done;
    return (
      event({
        ...idsOf(chat),
        object: 'chat.completion.chunk',
        created: chat.streamMetadata.head.created,
        choices: [],
        usage: bothUsages(bill.usage),
        creditsConsumed: bill.creditsConsumed,
        ...triesOf(chat),
      }) + done
    );
  },
  // The `openai` clients throw an error for a chunk with an `error` field.
  failure: ({ requestId }, error, bill) =>
    event({
      ...openaiError(error, requestId),
      ...(bill && { creditsConsumed: bill.creditsConsumed }),
    }),
};
