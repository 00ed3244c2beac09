/** The two ways in which a chat is shown (design §6): service style, and a superset of OpenAI's. */
import type { ChatAnswer, StreamStep } from '../../activities/chat/protocols/protocol.ts';
import type { ChatBill, OpenChat } from '../../activities/chat/open-chat.ts';
import type { FailedTry } from '../../activities/chat/chat-candidates.ts';
import type { TokenUsage } from '../../activities/chat/chat-price.ts';
import type { GatewayError } from '../../domain/errors.ts';
import { openaiError } from '../middleware/errors.ts';
import type { ChatRequest } from './chat-schema.ts';

/** What a presentation works with. */
export interface Shown {
  chat: OpenChat;
  request: ChatRequest;
  requestId: string;
}

/** Makes bodies and events. */
export interface Presentation {
  body: (shown: Shown, answer: ChatAnswer, bill: ChatBill) => string;
  /** Text of the stream for these steps; empty when there is nothing to say. */
  steps: (shown: Shown, steps: readonly StreamStep[]) => string;
  /** The close of a stream that is whole. */
  end: (shown: Shown, bill: ChatBill) => string;
  /** The close of a stream that broke: never `[DONE]`. */
  failure: (shown: Shown, error: GatewayError, bill: ChatBill | null) => string;
}

const done = 'data: [DONE]\n\n';

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function serviceUsage({ inputTokens, outputTokens }: TokenUsage) {
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
}

/** OpenAI's usage beside our own names for it. */
function bothUsages(usage: TokenUsage, given: unknown): Record<string, unknown> {
  const both = serviceUsage(usage);
  return {
    prompt_tokens: both.inputTokens,
    completion_tokens: both.outputTokens,
    total_tokens: both.totalTokens,
    ...(typeof given === 'object' && given),
    ...both,
  };
}

/** What became of the models before the one that answered. */
export function triesOf({ tried }: OpenChat): { tried?: readonly FailedTry[] } {
  return tried.length > 0 ? { tried } : {};
}

/** POST /api/v1/chat: spec §2.4. */
export const servicePresentation: Presentation = {
  body: ({ chat }, answer, bill) =>
    JSON.stringify({
      id: chat.id,
      model: chat.served.model,
      content: answer.text,
      finishReason: answer.finishReason,
      usage: serviceUsage(bill.usage),
      creditsConsumed: bill.creditsConsumed,
      ...triesOf(chat),
    }),
  steps({ chat }, steps) {
    const delta = steps.map((step) => step.text).join('');
    if (delta === '') return '';
    return event({ id: chat.id, model: chat.served.model, type: 'delta', delta });
  },
  end: ({ chat }, bill) =>
    event({
      id: chat.id,
      model: chat.served.model,
      type: 'done',
      finishReason: chat.outline.finishReason,
      usage: serviceUsage(bill.usage),
      creditsConsumed: bill.creditsConsumed,
      ...triesOf(chat),
    }) + done,
  failure: ({ chat, requestId }, error, bill) =>
    event({
      id: chat.id,
      model: chat.served.model,
      type: 'error',
      error: error.code,
      message: error.message,
      requestId,
      ...(bill && { usage: serviceUsage(bill.usage), creditsConsumed: bill.creditsConsumed }),
    }),
};

/** POST /api/v1/chat/completions: OpenAI's envelope, with the service's fields in it. */
export const completionsPresentation: Presentation = {
  body: ({ chat }, { completion, text }, bill) =>
    JSON.stringify({
      ...completion,
      content: text,
      usage: bothUsages(bill.usage, completion['usage']),
      creditsConsumed: bill.creditsConsumed,
      ...triesOf(chat),
    }),
  // Chunks of an OpenAI upstream are relayed as they came.
  steps: (_shown, steps) =>
    steps.map(({ chunk }) => (chunk === null ? '' : `data: ${chunk}\n\n`)).join(''),
  end({ chat, request }, bill) {
    if (!request.includeUsage) return done;
    const { head } = chat.outline;
    return (
      event({
        id: head.id || chat.id,
        object: 'chat.completion.chunk',
        created: head.created,
        model: head.model || chat.served.model,
        choices: [],
        usage: bothUsages(bill.usage, null),
        creditsConsumed: bill.creditsConsumed,
        ...triesOf(chat),
      }) + done
    );
  },
  // The `openai` clients throw for a chunk with `error` in it.
  failure: ({ requestId }, error, bill) =>
    event({
      ...openaiError(error, requestId),
      ...(bill && { creditsConsumed: bill.creditsConsumed }),
    }),
};
