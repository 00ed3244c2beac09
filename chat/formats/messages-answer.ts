/** Formats chats as messages and stream events of Anthropic's Messages API. */
import type { TokenUsage } from '../bill.ts';
import type { ChatBill } from '../chat-run.ts';
import { parseExact } from '../../domain/exact-numbers.ts';
import { asRecord, asText, isRecord, toStorable, type Json } from '../../domain/json.ts';
import { formatAnthropicError } from '../../domain/error-bodies.ts';
import { formatEvent } from '../../domain/event-lines.ts';
import { formatTried, type Presentation, type ChatContext } from './completions-answer.ts';
import { readToolCalls, readFirstMessage, type ToolCallPiece } from './chat-fields.ts';
import {
  encodeProviderData,
  readThoughts,
  toThoughtBlock,
  type ThoughtPiece,
} from './reasoning.ts';

/** Stream event of the Messages API. */
interface MessageEvent {
  type: string;
  [field: string]: unknown;
}

/** Converts the chunks of one chat to the events of content blocks, which follow one another. */
class ContentBlocks {
  /** True if the model refused to answer. */
  isRefusal = false;
  /** Index of the next content block. */
  #nextIndex = 0;
  #openBlock: 'thinking' | 'text' | 'tool' | null = null;
  /** Text of the open thinking block. */
  #thought = '';
  /** Index in the chunks of the tool call whose block is open. */
  #openCall = -1;

  /** Converts a chunk to events. */
  convert(chunk: unknown): MessageEvent[] {
    const delta = readFirstMessage(chunk);
    const refusal = asText(delta['refusal']);
    if (refusal !== '') this.isRefusal = true;
    return [
      ...readThoughts(delta).flatMap((piece) => this.#convertThought(piece)),
      ...this.#convertText(asText(delta['content']) + refusal),
      ...readToolCalls(chunk).flatMap((call) => this.#convertCall(call)),
    ];
  }

  /** Ends the open content block, if there is one. */
  close(): MessageEvent[] {
    if (this.#openBlock === null) return [];
    this.#openBlock = null;
    return [{ type: 'content_block_stop', index: this.#nextIndex - 1 }];
  }

  #beginBlock(kind: 'thinking' | 'text' | 'tool', block: object): MessageEvent[] {
    const stop = this.close();
    this.#openBlock = kind;
    this.#thought = '';
    this.#nextIndex += 1;
    const index = this.#nextIndex - 1;
    return [...stop, { type: 'content_block_start', index, content_block: block }];
  }

  #buildDelta(delta: object): MessageEvent {
    return { type: 'content_block_delta', index: this.#nextIndex - 1, delta };
  }

  #convertThought({ isWhole, ...thought }: ThoughtPiece): MessageEvent[] {
    const block = toThoughtBlock(thought);
    if (block.type === 'redacted_thinking') return this.#buildRedacted(block.data);
    const { thinking: text, signature } = block;
    const empty = { type: 'thinking', thinking: '', signature: '' };
    const events = this.#openBlock === 'thinking' ? [] : this.#beginBlock('thinking', empty);
    if (text !== '' && !(isWhole && this.#thought === text)) {
      this.#thought += text;
      events.push(this.#buildDelta({ type: 'thinking_delta', thinking: text }));
    }
    if (!isWhole) return events;
    if (signature !== '') events.push(this.#buildDelta({ type: 'signature_delta', signature }));
    return [...events, ...this.close()];
  }

  #buildRedacted(data: string): MessageEvent[] {
    const events = this.#beginBlock('thinking', { type: 'redacted_thinking', data });
    return [...events, ...this.close()];
  }

  #convertText(text: string): MessageEvent[] {
    if (text === '') return [];
    const start =
      this.#openBlock === 'text' ? [] : this.#beginBlock('text', { type: 'text', text: '' });
    return [...start, this.#buildDelta({ type: 'text_delta', text })];
  }

  #convertCall({ index, id, name, json, extraContent }: ToolCallPiece): MessageEvent[] {
    const events: MessageEvent[] = [];
    if (this.#openBlock !== 'tool' || this.#openCall !== index) {
      if (extraContent) events.push(...this.#buildRedacted(encodeProviderData({ extraContent })));
      events.push(...this.#beginBlock('tool', { type: 'tool_use', id, name, input: {} }));
      this.#openCall = index;
    }
    if (json === '') return events;
    return [...events, this.#buildDelta({ type: 'input_json_delta', partial_json: json })];
  }
}

/** Collects the content blocks of an answer that is not streamed. */
function collectContent(events: readonly MessageEvent[]): object[] {
  const blocks: Record<string, unknown>[] = [];
  for (const { type, content_block: block, delta } of events) {
    if (type === 'content_block_start') blocks.push({ ...asRecord(block) });
    const last = blocks.at(-1);
    if (!last || type !== 'content_block_delta') continue;
    const { partial_json: json, type: _, ...texts } = asRecord(delta);
    if (json !== undefined) last['json'] = asText(last['json']) + asText(json);
    for (const [name, text] of Object.entries(texts))
      last[name] = asText(last[name]) + asText(text);
  }
  return blocks.map(({ json, ...block }) =>
    json === undefined ? block : { ...block, input: parseToolInput(asText(json)) },
  );
}

function parseToolInput(json: string): Record<string, unknown> {
  try {
    // oxlint-disable-next-line no-unsafe-type-assertion -- the result of parsing JSON
    const input = toStorable(parseExact(json) as Json);
    if (isRecord(input)) return input;
  } catch {
    // A model may write invalid JSON as arguments; the caller then receives them as text.
  }
  return { arguments: json };
}

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

function formatStopReason({ finishReason, stopSequence }: AnswerEnd, isRefusal: boolean): object {
  const reason = stopReasons[finishReason ?? 'stop'] ?? 'end_turn';
  if (reason !== 'end_turn') return { stop_reason: reason, stop_sequence: null };
  const ending = stopSequence === null ? reason : 'stop_sequence';
  return { stop_reason: isRefusal ? 'refusal' : ending, stop_sequence: stopSequence };
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

function formatUsageAndCredits(
  { chat }: ChatContext,
  { usage, creditsConsumed }: ChatBill,
): object {
  return { usage: formatUsage(usage), creditsConsumed, ...formatTried(chat) };
}

const format = (events: readonly MessageEvent[]): string =>
  events.map((event) => formatEvent(event, event.type)).join('');

/** Creates the presentation of one chat, which keeps the open content block. */
export function createMessagesPresentation(): Presentation {
  const blocks = new ContentBlocks();
  let isStarted = false;
  const start = (context: ChatContext): MessageEvent[] => {
    if (isStarted) return [];
    isStarted = true;
    const message = {
      ...formatMessageHead(context),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: formatUsage({ ...context.chat.usage, outputTokens: 0 }),
    };
    return [{ type: 'message_start', message }];
  };
  return {
    keepalive: formatEvent({ type: 'ping' }, 'ping'),
    body: (context, answer, bill) =>
      JSON.stringify({
        ...formatMessageHead(context),
        content: collectContent(answer.steps.flatMap(({ chunk }) => blocks.convert(chunk))),
        ...formatStopReason(answer, blocks.isRefusal),
        ...formatUsageAndCredits(context, bill),
      }),
    steps: (context, steps) =>
      format([...start(context), ...steps.flatMap(({ chunk }) => blocks.convert(chunk))]),
    end: (context, bill) =>
      format([
        ...start(context),
        ...blocks.close(),
        {
          type: 'message_delta',
          delta: formatStopReason(context.chat.streamMetadata, blocks.isRefusal),
          ...formatUsageAndCredits(context, bill),
        },
        { type: 'message_stop' },
      ]),
    failure: ({ requestId }, error, bill) =>
      formatEvent(
        {
          ...formatAnthropicError(error, requestId),
          type: 'error',
          ...(bill && { creditsConsumed: bill.creditsConsumed }),
        },
        'error',
      ),
  };
}
