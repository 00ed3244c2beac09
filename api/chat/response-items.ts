/** Output items of a response, built from the chunks of a chat, with the stream events that announce them. */
import { callsOf, firstOf, textOf, type CallPiece } from './first-choice.ts';

/** An event of the stream, before its sequence number is set. */
export interface ResponseEvent {
  type: string;
  [field: string]: unknown;
}

interface TextPart {
  kind: 'output_text' | 'refusal';
  text: string;
}

interface MessageItem {
  type: 'message';
  id: string;
  parts: TextPart[];
}

interface CallItem {
  type: 'function_call';
  id: string;
  callId: string;
  name: string;
  json: string;
}

type Item = MessageItem | CallItem;
type Status = 'in_progress' | 'completed' | 'incomplete';

function partOf({ kind, text }: TextPart): object {
  return kind === 'refusal'
    ? { type: kind, refusal: text }
    : { type: kind, text, annotations: [], logprobs: [] };
}

function itemOf(item: Item, status: Status): object {
  const { type, id } = item;
  return item.type === 'message'
    ? { id, type, status, role: 'assistant', content: item.parts.map(partOf) }
    : { id, type, status, call_id: item.callId, name: item.name, arguments: item.json };
}

/**
 * Collects the items of one response. A message ends when a call begins; calls end with the response, because
 * providers may mix the pieces of parallel calls.
 */
export class ResponseItems {
  readonly #chatId: string;
  readonly #items: Item[] = [];
  /** Items by the index of their call in the chunks. */
  readonly #calls = new Map<number, CallItem>();
  /** Message that the next text belongs to. */
  #message: MessageItem | null = null;

  constructor(chatId: string) {
    this.#chatId = chatId;
  }

  /** Adds a chunk, or a whole completion, and returns its events. */
  add(chunk: unknown): ResponseEvent[] {
    const message = firstOf(chunk);
    return [
      ...this.#addText('output_text', textOf(message['content'])),
      ...this.#addText('refusal', textOf(message['refusal'])),
      ...callsOf(chunk).flatMap((piece) => this.#addCall(piece)),
    ];
  }

  /** Ends the items that are open and returns the events for it. */
  end(status: Status): ResponseEvent[] {
    const calls = [...this.#calls.values()].flatMap((item) => [
      {
        type: 'response.function_call_arguments.done',
        ...this.#placeOf(item),
        name: item.name,
        arguments: item.json,
      },
      this.#done(item, status),
    ]);
    return [...this.#endMessage(status), ...calls];
  }

  /** Returns the `output` of the response. */
  output(status: Status): object[] {
    return this.#items.map((item) => itemOf(item, status));
  }

  #placeOf(item: Item): { item_id: string; output_index: number } {
    return { item_id: item.id, output_index: this.#items.indexOf(item) };
  }

  #idOf(prefix: string): string {
    return `${prefix}_${this.#chatId}_${this.#items.length}`;
  }

  #begin(item: Item): ResponseEvent {
    this.#items.push(item);
    return {
      type: 'response.output_item.added',
      output_index: this.#items.length - 1,
      item: itemOf(item, 'in_progress'),
    };
  }

  #done(item: Item, status: Status): ResponseEvent {
    return {
      type: 'response.output_item.done',
      output_index: this.#items.indexOf(item),
      item: itemOf(item, status),
    };
  }

  #addText(kind: TextPart['kind'], delta: string): ResponseEvent[] {
    if (delta === '') return [];
    const events: ResponseEvent[] = [];
    if (!this.#message) {
      this.#message = { type: 'message', id: this.#idOf('msg'), parts: [] };
      events.push(this.#begin(this.#message));
    }
    const { parts } = this.#message;
    let part = parts.at(-1);
    if (part?.kind !== kind) {
      events.push(...this.#endPart());
      part = { kind, text: '' };
      parts.push(part);
      const place = this.#partPlace(this.#message);
      events.push({ type: 'response.content_part.added', ...place, part: partOf(part) });
    }
    part.text += delta;
    events.push({
      type: `response.${kind}.delta`,
      ...this.#partPlace(this.#message),
      delta,
      ...(kind === 'output_text' && { logprobs: [] }),
    });
    return events;
  }

  #partPlace(message: MessageItem): object {
    return { ...this.#placeOf(message), content_index: message.parts.length - 1 };
  }

  #endPart(): ResponseEvent[] {
    const part = this.#message?.parts.at(-1);
    if (!this.#message || !part) return [];
    const place = this.#partPlace(this.#message);
    const { kind, text } = part;
    const content = kind === 'refusal' ? { refusal: text } : { text, logprobs: [] };
    return [
      { type: `response.${kind}.done`, ...place, ...content },
      { type: 'response.content_part.done', ...place, part: partOf(part) },
    ];
  }

  #endMessage(status: Status): ResponseEvent[] {
    const message = this.#message;
    if (!message) return [];
    const events = [...this.#endPart(), this.#done(message, status)];
    this.#message = null;
    return events;
  }

  #addCall({ index, id, name, json }: CallPiece): ResponseEvent[] {
    const events: ResponseEvent[] = [];
    let item = this.#calls.get(index);
    if (!item) {
      events.push(...this.#endMessage('completed'));
      item = { type: 'function_call', id: this.#idOf('fc'), callId: id, name, json: '' };
      this.#calls.set(index, item);
      events.push(this.#begin(item));
    }
    item.json += json;
    if (json !== '') {
      const type = 'response.function_call_arguments.delta';
      events.push({ type, ...this.#placeOf(item), delta: json });
    }
    return events;
  }
}
