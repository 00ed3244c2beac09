/** Formats chats as Anthropic's Messages API does: messages, and streams of their events. */
import type { TokenUsage } from '../../chat/chat-price.ts';
import type { ChatBill } from '../../chat/open-chat.ts';
import { textOf } from '../../domain/json.ts';
import { anthropicError } from '../http/error-bodies.ts';
import { triesOf, type Presentation, type Shown } from './chat-presentation.ts';
import { callsOf, firstOf } from './first-choice.ts';
import { MessageEvents, messageEvent } from './message-events.ts';
import { sealed, thoughtsIn } from './thoughts.ts';

const stopReasons: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

interface Ending {
  finishReason: string | null;
  stopSequence: string | null;
}

function endingOf({ finishReason, stopSequence }: Ending): object {
  const reason = stopReasons[finishReason ?? 'stop'] ?? 'end_turn';
  return {
    stop_reason: stopSequence === null ? reason : 'stop_sequence',
    stop_sequence: stopSequence,
  };
}

/** Returns the usage; as Anthropic counts, `input_tokens` does not include tokens of the cache. */
function usageOf(usage: TokenUsage): object {
  const { inputTokens, cachedInputTokens = 0, cacheWriteTokens = 0, outputTokens } = usage;
  return {
    input_tokens: inputTokens - cachedInputTokens - cacheWriteTokens,
    cache_read_input_tokens: cachedInputTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    output_tokens: outputTokens,
  };
}

function headOf({ chat }: Shown) {
  return { id: chat.id, type: 'message', role: 'assistant', model: chat.served.model };
}

/** Returns the content blocks of a whole answer. */
function contentOf(completion: unknown): object[] {
  const message = firstOf(completion);
  const text = textOf(message['content']);
  return [
    ...thoughtsIn(message).map(({ text: thinking, signature, data }) =>
      data === '' ? { type: 'thinking', thinking, signature } : { type: 'redacted_thinking', data },
    ),
    ...(text === '' ? [] : [{ type: 'text', text }]),
    ...callsOf(completion).flatMap(({ id, name, json, extraContent }) => [
      ...(extraContent ? [{ type: 'redacted_thinking', data: sealed({ extraContent }) }] : []),
      { type: 'tool_use', id, name, input: parsedInput(json) },
    ]),
  ];
}

function extrasOf({ chat }: Shown, { usage, creditsConsumed }: ChatBill): object {
  return { usage: usageOf(usage), creditsConsumed, ...triesOf(chat) };
}

/** Makes the presentation of one chat, whose stream consists of content blocks in sequence. */
export function messagesPresentation(): Presentation {
  const stream = new MessageEvents();
  const start = (shown: Shown): string =>
    stream.start({
      ...headOf(shown),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf({ ...shown.chat.usage, outputTokens: 0 }),
    });
  return {
    body: (shown, answer, bill) =>
      JSON.stringify({
        ...headOf(shown),
        content: contentOf(answer.completion),
        ...endingOf(answer),
        ...extrasOf(shown, bill),
      }),
    steps: (shown, steps) =>
      steps.map(({ chunk }) => (chunk ? start(shown) + stream.of(chunk) : '')).join(''),
    end: (shown, bill) =>
      start(shown) +
      stream.close() +
      messageEvent('message_delta', {
        delta: endingOf(shown.chat.outline),
        ...extrasOf(shown, bill),
      }) +
      messageEvent('message_stop', {}),
    failure: ({ requestId }, error, bill) =>
      messageEvent('error', {
        ...anthropicError(error, requestId),
        ...(bill && { creditsConsumed: bill.creditsConsumed }),
      }),
  };
}

function parsedInput(json: string): unknown {
  try {
    const input: unknown = JSON.parse(json || '{}');
    return input;
  } catch {
    // Arguments of a model may be invalid JSON; the caller receives them as text.
    return { arguments: json };
  }
}
