/**
 * Builds the output items of OpenAI's Responses API from the chunks of a chat, and the stream
 * events that report these items.
 */
import { asText, type JsonObject } from '../../domain/json.ts';
import { readToolCalls, readFirstMessage, type ToolCallPiece } from './first-choice.ts';
import {
  formatItem,
  formatPart,
  formatSummary,
  type ToolCallItem,
  type OutputItem,
  type MessageItem,
  type ReasoningItem,
  type ItemStatus,
  type TextPart,
} from './output-items.ts';
import { toReasoningDetail } from '../../chat/answer-blocks.ts';
import type { Thought } from '../../chat/chat-body.ts';
import { readThoughts } from './thoughts.ts';

/** Stream event without its sequence number. */
export interface ResponseEvent {
  type: string;
  [field: string]: unknown;
}

/**
 * Collects the output items of one response. A message ends when a tool call begins. Tool calls end
 * only when the response ends, because providers may interleave the pieces of parallel calls.
 */
export class ResponseItems {
  readonly #chatId: string;
  readonly #items: OutputItem[] = [];
  /** Tool-call items, keyed by the index of the call in the chunks. */
  readonly #calls = new Map<number, ToolCallItem>();
  /** Open message, to which the next text is added. */
  #message: MessageItem | null = null;
  /** Open reasoning item, to which the next thoughts are added. */
  #reasoning: ReasoningItem | null = null;

  constructor(chatId: string) {
    this.#chatId = chatId;
  }

  /** Adds a chunk, and returns the events that report it. */
  add(chunk: unknown): ResponseEvent[] {
    const message = readFirstMessage(chunk);
    return [
      ...readThoughts(message).flatMap((piece) => this.#addThought(piece)),
      ...this.#addText('output_text', asText(message['content'])),
      ...this.#addText('refusal', asText(message['refusal'])),
      ...readToolCalls(chunk).flatMap((piece) => this.#addCall(piece)),
    ];
  }

  /** Ends the open items, and returns the events that report it. */
  end(status: ItemStatus): ResponseEvent[] {
    const calls = [...this.#calls.values()].flatMap((item) => [
      {
        type: 'response.function_call_arguments.done',
        ...this.#locateItem(item),
        name: item.name,
        arguments: item.json,
      },
      this.#endItem(item, status),
    ]);
    return [...this.#endReasoning(), ...this.#endMessage(status), ...calls];
  }

  /** Returns the field `output` of the response. */
  output(status: ItemStatus): object[] {
    return this.#items.map((item) => formatItem(item, status));
  }

  #locateItem(item: OutputItem): { item_id: string; output_index: number } {
    return { item_id: item.id, output_index: this.#items.indexOf(item) };
  }

  #createId(prefix: string): string {
    return `${prefix}_${this.#chatId}_${this.#items.length}`;
  }

  #beginItem(item: OutputItem): ResponseEvent {
    this.#items.push(item);
    return {
      type: 'response.output_item.added',
      output_index: this.#items.length - 1,
      item: formatItem(item, 'in_progress'),
    };
  }

  #endItem(item: OutputItem, status: ItemStatus): ResponseEvent {
    return {
      type: 'response.output_item.done',
      output_index: this.#items.indexOf(item),
      item: formatItem(item, status),
    };
  }

  #addText(kind: TextPart['kind'], delta: string): ResponseEvent[] {
    if (delta === '') return [];
    const events: ResponseEvent[] = this.#endReasoning();
    if (!this.#message) {
      this.#message = { type: 'message', id: this.#createId('msg'), parts: [] };
      events.push(this.#beginItem(this.#message));
    }
    const { parts } = this.#message;
    let part = parts.at(-1);
    if (part?.kind !== kind) {
      events.push(...this.#endPart());
      part = { kind, text: '' };
      parts.push(part);
      const location = this.#locatePart(this.#message);
      events.push({ type: 'response.content_part.added', ...location, part: formatPart(part) });
    }
    part.text += delta;
    events.push({
      type: `response.${kind}.delta`,
      ...this.#locatePart(this.#message),
      delta,
      ...(kind === 'output_text' && { logprobs: [] }),
    });
    return events;
  }

  #locatePart(message: MessageItem): object {
    return { ...this.#locateItem(message), content_index: message.parts.length - 1 };
  }

  #endPart(): ResponseEvent[] {
    const part = this.#message?.parts.at(-1);
    if (!this.#message || !part) return [];
    const location = this.#locatePart(this.#message);
    const { kind, text } = part;
    const content = kind === 'refusal' ? { refusal: text } : { text, logprobs: [] };
    return [
      { type: `response.${kind}.done`, ...location, ...content },
      { type: 'response.content_part.done', ...location, part: formatPart(part) },
    ];
  }

  #endMessage(status: ItemStatus): ResponseEvent[] {
    const message = this.#message;
    if (!message) return [];
    const events = [...this.#endPart(), this.#endItem(message, status)];
    this.#message = null;
    return events;
  }

  #addThought(thought: Thought): ResponseEvent[] {
    const { text, signature, data } = thought;
    const events: ResponseEvent[] = [];
    let item = this.#reasoning;
    if (!item) {
      events.push(...this.#endMessage('completed'));
      item = { type: 'reasoning', id: this.#createId('rs'), text: '', details: [] };
      this.#reasoning = item;
      events.push(this.#beginItem(item));
    }
    const isCompleteThought = signature !== '' || data !== '';
    if (isCompleteThought) item.details.push(toReasoningDetail(thought));
    const isAlreadySent = isCompleteThought && item.text.endsWith(text);
    if (text === '' || isAlreadySent) return events;
    const location = { ...this.#locateItem(item), summary_index: 0 };
    if (item.text === '') {
      const type = 'response.reasoning_summary_part.added';
      events.push({ type, ...location, part: formatSummary('') });
    }
    item.text += text;
    events.push({ type: 'response.reasoning_summary_text.delta', ...location, delta: text });
    return events;
  }

  #endReasoning(): ResponseEvent[] {
    const item = this.#reasoning;
    if (!item) return [];
    this.#reasoning = null;
    const doneEvent = this.#endItem(item, 'completed');
    if (item.text === '') return [doneEvent];
    const location = { ...this.#locateItem(item), summary_index: 0 };
    return [
      { type: 'response.reasoning_summary_text.done', ...location, text: item.text },
      { type: 'response.reasoning_summary_part.done', ...location, part: formatSummary(item.text) },
      doneEvent,
    ];
  }

  /** Adds a reasoning item without text, which contains provider data for the next tool call. */
  #addCallData(extraContent: JsonObject): ResponseEvent[] {
    const id = this.#createId('rs');
    const item: ReasoningItem = { type: 'reasoning', id, text: '', details: [], extraContent };
    return [this.#beginItem(item), this.#endItem(item, 'completed')];
  }

  #addCall({ index, id, name, json, extraContent }: ToolCallPiece): ResponseEvent[] {
    const events: ResponseEvent[] = [];
    let item = this.#calls.get(index);
    if (!item) {
      events.push(...this.#endReasoning(), ...this.#endMessage('completed'));
      if (extraContent) events.push(...this.#addCallData(extraContent));
      item = { type: 'function_call', id: this.#createId('fc'), callId: id, name, json: '' };
      this.#calls.set(index, item);
      events.push(this.#beginItem(item));
    }
    item.json += json;
    if (json !== '') {
      const type = 'response.function_call_arguments.delta';
      events.push({ type, ...this.#locateItem(item), delta: json });
    }
    return events;
  }
}
