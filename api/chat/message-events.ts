/** Converts the chunks of a chat to stream events of Anthropic's Messages API. */
import { textOf } from '../../domain/json.ts';
import { callsOf, firstOf, type CallPiece } from './first-choice.ts';
import { seal, thoughtsIn, type ThoughtPiece } from './thoughts.ts';

/** Formats a server-sent event. */
export function messageEvent(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

/**
 * Converter of the chunks of one chat to stream events. A block stays open until the next one
 * begins.
 */
export class MessageEvents {
  #started = false;
  /** Index of the next block. */
  #next = 0;
  #open: 'thinking' | 'text' | 'tool' | null = null;
  /** Index of the block of each tool call, by the index of the call. */
  readonly #blocks = new Map<number, number>();

  /** Returns the first event of the stream; an empty string if called again. */
  start(message: object): string {
    if (this.#started) return '';
    this.#started = true;
    return messageEvent('message_start', { message });
  }

  /** Converts a chunk to events. */
  convert(chunk: unknown): string {
    const delta = firstOf(chunk);
    const text = textOf(delta['content']);
    return [
      ...thoughtsIn(delta).map((piece) => this.#thought(piece)),
      text === '' ? '' : this.#text(text),
      ...callsOf(chunk).map((call) => this.#call(call)),
    ].join('');
  }

  /** Ends the open block, if any. */
  close(): string {
    if (this.#open === null) return '';
    this.#open = null;
    return messageEvent('content_block_stop', { index: this.#next - 1 });
  }

  #begin(kind: 'thinking' | 'text' | 'tool', block: object): string {
    const stop = this.close();
    this.#open = kind;
    this.#next += 1;
    const start = { index: this.#next - 1, content_block: block };
    return stop + messageEvent('content_block_start', start);
  }

  #delta(delta: object, index = this.#next - 1): string {
    return messageEvent('content_block_delta', { index, delta });
  }

  #thought({ text, signature, data }: ThoughtPiece): string {
    if (data !== '') return this.#redacted(data);
    const isOpen = this.#open === 'thinking';
    const empty = { type: 'thinking', thinking: '', signature: '' };
    const start = isOpen ? '' : this.#begin('thinking', empty);
    if (signature === '') return start + this.#delta({ type: 'thinking_delta', thinking: text });
    // A signature ends the block.
    return start + this.#delta({ type: 'signature_delta', signature }) + this.close();
  }

  #redacted(data: string): string {
    return this.#begin('thinking', { type: 'redacted_thinking', data }) + this.close();
  }

  #text(text: string): string {
    const start = this.#open === 'text' ? '' : this.#begin('text', { type: 'text', text: '' });
    return start + this.#delta({ type: 'text_delta', text });
  }

  #call({ index, id, name, json, extraContent }: CallPiece): string {
    let start = '';
    if (!this.#blocks.has(index)) {
      if (extraContent) start = this.#redacted(seal({ extraContent }));
      start += this.#begin('tool', { type: 'tool_use', id, name, input: {} });
      this.#blocks.set(index, this.#next - 1);
    }
    if (json === '') return start;
    const delta = { type: 'input_json_delta', partial_json: json };
    return start + this.#delta(delta, this.#blocks.get(index));
  }
}
