/** Formats chats as messages and stream events of Anthropic's Messages API. */
import { readBlocks } from '../../chat/answer-blocks.ts';
import type { TokenUsage } from '../../chat/chat-price.ts';
import type { ChatBill } from '../../chat/open-chat.ts';
import { toStorable, type Json } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';
import { formatAnthropicError } from '../http/error-bodies.ts';
import { formatTried, type Presentation, type ChatContext } from './chat-presentation.ts';
import { readFirstMessage } from './first-choice.ts';
import { MessageEvents, formatMessageEvent } from './message-events.ts';
import { encodeProviderData, toThoughtBlock } from './thoughts.ts';

const stopReasons: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

interface AnswerEnd {
  finishReason: string | null;
  stopSequence: string | null;
}

function formatStopReason({ finishReason, stopSequence }: AnswerEnd): object {
  const reason = stopReasons[finishReason ?? 'stop'] ?? 'end_turn';
  return {
    stop_reason: stopSequence === null ? reason : 'stop_sequence',
    stop_sequence: stopSequence,
  };
}

/** Formats usage. As in Anthropic's API, `input_tokens` does not include cached tokens. */
function formatUsage(usage: TokenUsage): object {
  const { inputTokens, cachedInputTokens = 0, cacheWriteTokens = 0, outputTokens } = usage;
  return {
    input_tokens: inputTokens - cachedInputTokens - cacheWriteTokens,
    cache_read_input_tokens: cachedInputTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    output_tokens: outputTokens,
  };
}

function formatMessageHead({ chat }: ChatContext) {
  return { id: chat.id, type: 'message', role: 'assistant', model: chat.servedBy.model };
}

/** Formats the content blocks of an answer that is not streamed, in their order. */
function formatContent(completion: unknown): object[] {
  return readBlocks(readFirstMessage(completion)).flatMap((block): object[] => {
    if (block.type === 'thought') return [toThoughtBlock(block)];
    if (block.type === 'text') return [{ type: 'text', text: block.text }];
    if (block.type === 'refusal') return [{ type: 'text', text: block.refusal }];
    const { id, function: called, extra_content: extraContent } = block;
    // A caller could not send back more extra content than a request may contain.
    const isAccepted = extraContent && anyJsonObject.safeParse(extraContent).success;
    return [
      ...(isAccepted
        ? [{ type: 'redacted_thinking', data: encodeProviderData({ extraContent }) }]
        : []),
      { type: 'tool_use', id, name: called.name, input: parseToolInput(called.arguments) },
    ];
  });
}

function formatUsageAndCredits(
  { chat }: ChatContext,
  { usage, creditsConsumed }: ChatBill,
): object {
  return { usage: formatUsage(usage), creditsConsumed, ...formatTried(chat) };
}

/** Creates the presentation of one chat, which keeps the open content block of the stream. */
export function createMessagesPresentation(): Presentation {
  const stream = new MessageEvents();
  const start = (context: ChatContext): string =>
    stream.start({
      ...formatMessageHead(context),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: formatUsage({ ...context.chat.usage, outputTokens: 0 }),
    });
  return {
    body: (context, answer, bill) =>
      JSON.stringify({
        ...formatMessageHead(context),
        content: formatContent(answer.completion),
        ...formatStopReason(answer),
        ...formatUsageAndCredits(context, bill),
      }),
    steps: (context, steps) =>
      steps.map(({ chunk }) => (chunk ? start(context) + stream.convert(chunk) : '')).join(''),
    end: (context, bill) =>
      start(context) +
      stream.close() +
      formatMessageEvent('message_delta', {
        delta: formatStopReason(context.chat.streamMetadata),
        ...formatUsageAndCredits(context, bill),
      }) +
      formatMessageEvent('message_stop', {}),
    failure: ({ requestId }, error, bill) =>
      formatMessageEvent('error', {
        ...formatAnthropicError(error, requestId),
        ...(bill && { creditsConsumed: bill.creditsConsumed }),
      }),
  };
}

function parseToolInput(json: string): unknown {
  try {
    const input: Json = JSON.parse(json || '{}');
    return toStorable(input);
  } catch {
    // A model may write invalid JSON as arguments; the caller then receives them as text.
    return { arguments: json };
  }
}
