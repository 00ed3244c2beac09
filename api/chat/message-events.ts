/** Converts the chunks of a chat to stream events of Anthropic's Messages API. */
import { asText } from '../../domain/json.ts';
import { readToolCalls, readFirstMessage, type ToolCallPiece } from './first-choice.ts';
import type { Thought } from '../../chat/chat-body.ts';
import { encodeProviderData, readThoughts, toThoughtBlock } from './thoughts.ts';

/** Formats a server-sent event of the Messages API. */
export function formatMessageEvent(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

/**
 * Converts the chunks of one chat to stream events. A content block stays open until the next one
 * begins.
 */
export class MessageEvents {
  #started = false;
  /** Index of the next content block. */
  #nextIndex = 0;
  #openBlock: 'thinking' | 'text' | 'tool' | null = null;
  /** Index of each tool call's block, keyed by the index of the call in the chunks. */
  readonly #blockIndexes = new Map<number, number>();

  /** Returns the first event of the stream. Returns an empty string if called again. */
  start(message: object): string {
    if (this.#started) return '';
    this.#started = true;
    return formatMessageEvent('message_start', { message });
  }

  /** Converts a chunk to events. */
  convert(chunk: unknown): string {
    const delta = readFirstMessage(chunk);
    const text = asText(delta['content']);
    return [
      ...readThoughts(delta).map((piece) => this.#convertThought(piece)),
      text === '' ? '' : this.#convertText(text),
      ...readToolCalls(chunk).map((call) => this.#convertCall(call)),
    ].join('');
  }

  /** Ends the open content block, if there is one. */
  close(): string {
    if (this.#openBlock === null) return '';
    this.#openBlock = null;
    return formatMessageEvent('content_block_stop', { index: this.#nextIndex - 1 });
  }

  #beginBlock(kind: 'thinking' | 'text' | 'tool', block: object): string {
    const stop = this.close();
    this.#openBlock = kind;
    this.#nextIndex += 1;
    const start = { index: this.#nextIndex - 1, content_block: block };
    return stop + formatMessageEvent('content_block_start', start);
  }

  #formatDelta(delta: object, index = this.#nextIndex - 1): string {
    return formatMessageEvent('content_block_delta', { index, delta });
  }

  #convertThought(thought: Thought): string {
    const block = toThoughtBlock(thought);
    if (block.type === 'redacted_thinking') return this.#formatRedacted(block.data);
    const { thinking, signature } = block;
    const isOpen = this.#openBlock === 'thinking';
    const empty = { type: 'thinking', thinking: '', signature: '' };
    const start = isOpen ? '' : this.#beginBlock('thinking', empty);
    if (signature === '') return start + this.#formatDelta({ type: 'thinking_delta', thinking });
    // A signature ends the block.
    return start + this.#formatDelta({ type: 'signature_delta', signature }) + this.close();
  }

  #formatRedacted(data: string): string {
    return this.#beginBlock('thinking', { type: 'redacted_thinking', data }) + this.close();
  }

  #convertText(text: string): string {
    const start =
      this.#openBlock === 'text' ? '' : this.#beginBlock('text', { type: 'text', text: '' });
    return start + this.#formatDelta({ type: 'text_delta', text });
  }

  #convertCall({ index, id, name, json, extraContent }: ToolCallPiece): string {
    let start = '';
    if (!this.#blockIndexes.has(index)) {
      if (extraContent) start = this.#formatRedacted(encodeProviderData({ extraContent }));
      start += this.#beginBlock('tool', { type: 'tool_use', id, name, input: {} });
      this.#blockIndexes.set(index, this.#nextIndex - 1);
    }
    if (json === '') return start;
    const delta = { type: 'input_json_delta', partial_json: json };
    return start + this.#formatDelta(delta, this.#blockIndexes.get(index));
  }
}
