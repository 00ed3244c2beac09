/** Formats chats as Anthropic's Messages API does: messages, and streams of their events. */
import type { ChatBill } from '../../chat/open-chat.ts';
import { anthropicError } from '../middleware/errors.ts';
import { triesOf, type Presentation, type Shown } from './chat-presentation.ts';
import { callsOf, firstOf, textOf, type CallPiece } from './first-choice.ts';

const stopReasons: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

function stopReasonOf(finishReason: string | null): string {
  return stopReasons[finishReason ?? 'stop'] ?? 'end_turn';
}

function usageOf({ usage }: ChatBill): { input_tokens: number; output_tokens: number } {
  return { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens };
}

function headOf({ chat }: Shown) {
  return { id: chat.id, type: 'message', role: 'assistant', model: chat.served.model };
}

function event(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

/** Makes the presentation of one chat, whose stream consists of content blocks in sequence. */
export function messagesPresentation(): Presentation {
  const stream = new MessageEvents();
  return {
    body: (shown, { completion, text, finishReason }, bill) =>
      JSON.stringify({
        ...headOf(shown),
        content: [
          ...(text === '' ? [] : [{ type: 'text', text }]),
          ...callsOf(completion).map(({ id, name, json }) => ({
            type: 'tool_use',
            id,
            name,
            input: parsedInput(json),
          })),
        ],
        stop_reason: stopReasonOf(finishReason),
        stop_sequence: null,
        usage: usageOf(bill),
        creditsConsumed: bill.creditsConsumed,
        ...triesOf(shown.chat),
      }),
    steps: (shown, steps) =>
      steps
        .map(({ chunk }) => (chunk === null ? '' : stream.of(shown, JSON.parse(chunk))))
        .join(''),
    end(shown, bill) {
      const delta = {
        stop_reason: stopReasonOf(shown.chat.outline.finishReason),
        stop_sequence: null,
      };
      return (
        stream.start(shown) +
        stream.close() +
        event('message_delta', {
          delta,
          usage: usageOf(bill),
          creditsConsumed: bill.creditsConsumed,
          ...triesOf(shown.chat),
        }) +
        event('message_stop', {})
      );
    },
    failure: ({ requestId }, error, bill) =>
      event('error', {
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

/** Converts the chunks of one chat to stream events. A block is open until the next one begins. */
class MessageEvents {
  #started = false;
  /** Index of the next block. */
  #next = 0;
  #open: 'text' | 'tool' | null = null;
  /** Indexes of blocks by the index of their call. */
  readonly #blocks = new Map<number, number>();

  start(shown: Shown): string {
    if (this.#started) return '';
    this.#started = true;
    const usage = { input_tokens: 0, output_tokens: 0 };
    const end = { stop_reason: null, stop_sequence: null };
    return event('message_start', { message: { ...headOf(shown), content: [], ...end, usage } });
  }

  of(shown: Shown, chunk: unknown): string {
    const started = this.start(shown);
    const text = textOf(firstOf(chunk)['content']);
    return (
      started +
      (text === '' ? '' : this.#text(text)) +
      callsOf(chunk)
        .map((call) => this.#call(call))
        .join('')
    );
  }

  close(): string {
    if (this.#open === null) return '';
    this.#open = null;
    return event('content_block_stop', { index: this.#next - 1 });
  }

  #begin(kind: 'text' | 'tool', block: object): string {
    const stop = this.close();
    this.#open = kind;
    this.#next += 1;
    return stop + event('content_block_start', { index: this.#next - 1, content_block: block });
  }

  #text(text: string): string {
    const start = this.#open === 'text' ? '' : this.#begin('text', { type: 'text', text: '' });
    const delta = { type: 'text_delta', text };
    return start + event('content_block_delta', { index: this.#next - 1, delta });
  }

  #call({ index, id, name, json }: CallPiece): string {
    let start = '';
    if (!this.#blocks.has(index)) {
      start = this.#begin('tool', { type: 'tool_use', id, name, input: {} });
      this.#blocks.set(index, this.#next - 1);
    }
    if (json === '') return start;
    const delta = { type: 'input_json_delta', partial_json: json };
    return start + event('content_block_delta', { index: this.#blocks.get(index), delta });
  }
}
