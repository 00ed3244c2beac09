/**
 * Formats chats as responses and stream events of OpenAI's Responses API. The output items are built
 * from the chunks of a chat.
 */
import { toReasoningDetail } from '../answer-blocks.ts';
import type { ChatBill } from '../chat-run.ts';
import type { GatewayError } from '../../domain/errors.ts';
import type { StreamStep } from '../protocols/protocol.ts';
import { asText, type JsonObject } from '../../domain/json.ts';
import { toOpenaiCode, formatOpenaiError } from '../../domain/error-bodies.ts';
import { formatEvent } from '../../domain/event-lines.ts';
import {
  commentKeepalive,
  formatTried,
  type Presentation,
  type ChatContext,
} from './completions-answer.ts';
import { readToolCalls, readFirstMessage, type ToolCallPiece } from './chat-fields.ts';
import { formatResponse, formatUsage, toUnixSeconds } from './response-resource.ts';
import { ToolRestorer } from './responses-tools.ts';
import { encodeProviderData, readThoughts, type ThoughtPiece } from './reasoning.ts';

/** Part of an output message. */
interface TextPart {
  kind: 'output_text' | 'refusal';
  text: string;
}

/** Message of the model. */
interface MessageItem {
  type: 'message';
  id: string;
  parts: TextPart[];
}

/** Tool call. `json` contains its arguments. */
interface ToolCallItem {
  type: 'function_call';
  id: string;
  callId: string;
  name: string;
  json: string;
}

/** Reasoning, with the provider data that the next request must contain. */
interface ReasoningItem {
  type: 'reasoning';
  id: string;
  text: string;
  details: JsonObject[];
  extraContent?: JsonObject;
}

/** Output item of a response. */
type OutputItem = MessageItem | ToolCallItem | ReasoningItem;
/** Status of an output item. */
type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** Formats a part of an output message. */
function formatPart({ kind, text }: TextPart): object {
  return kind === 'refusal'
    ? { type: kind, refusal: text }
    : { type: kind, text, annotations: [], logprobs: [] };
}

/** Formats an output item. */
function formatItem(item: OutputItem, status: ItemStatus): object {
  const { type, id } = item;
  if (item.type === 'message') {
    return { id, type, status, role: 'assistant', content: item.parts.map(formatPart) };
  }
  if (item.type === 'function_call') {
    return { id, type, status, call_id: item.callId, name: item.name, arguments: item.json };
  }
  const { text, details, extraContent } = item;
  const content = {
    ...(details.length > 0 && { details }),
    ...(extraContent && { extraContent }),
  };
  return {
    id,
    type,
    summary: text === '' ? [] : [formatSummary(text)],
    encrypted_content: Object.keys(content).length > 0 ? encodeProviderData(content) : null,
  };
}

/** Formats the summary of a reasoning item. */
function formatSummary(text: string): object {
  return { type: 'summary_text', text };
}

/** Stream event without its sequence number. */
interface ResponseEvent {
  type: string;
  [field: string]: unknown;
}

/** Collects the output items of one response, which follow one another. */
class ResponseItems {
  readonly #chatId: string;
  readonly #items: OutputItem[] = [];
  /** Item to which the next piece of its kind is added. */
  #open: OutputItem | null = null;
  /** Index in the chunks of the most recent tool call. */
  #lastCall = -1;

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

  /** Ends the open item, and returns the events that report it. */
  end(status: ItemStatus): ResponseEvent[] {
    const item = this.#open;
    if (!item) return [];
    this.#open = null;
    const done = {
      type: 'response.output_item.done',
      output_index: this.#items.indexOf(item),
      item: formatItem(item, item.type === 'reasoning' ? 'completed' : status),
    };
    return [...this.#endContent(item), done];
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

  /** Ends the open item, and begins another one. */
  #beginItem(item: OutputItem): ResponseEvent[] {
    const events = this.end('completed');
    this.#items.push(item);
    this.#open = item;
    return [
      ...events,
      {
        type: 'response.output_item.added',
        output_index: this.#items.length - 1,
        item: formatItem(item, 'in_progress'),
      },
    ];
  }

  #addText(kind: TextPart['kind'], delta: string): ResponseEvent[] {
    if (delta === '') return [];
    const events: ResponseEvent[] = [];
    let message = this.#open;
    if (message?.type !== 'message') {
      message = { type: 'message', id: this.#createId('msg'), parts: [] };
      events.push(...this.#beginItem(message));
    }
    const { parts } = message;
    let part = parts.at(-1);
    if (part?.kind !== kind) {
      events.push(...this.#endPart(message));
      part = { kind, text: '' };
      parts.push(part);
      const location = this.#locatePart(message);
      events.push({ type: 'response.content_part.added', ...location, part: formatPart(part) });
    }
    part.text += delta;
    events.push({
      type: `response.${kind}.delta`,
      ...this.#locatePart(message),
      delta,
      ...(kind === 'output_text' && { logprobs: [] }),
    });
    return events;
  }

  #locatePart(message: MessageItem): object {
    return { ...this.#locateItem(message), content_index: message.parts.length - 1 };
  }

  #endPart(message: MessageItem): ResponseEvent[] {
    const part = message.parts.at(-1);
    if (!part) return [];
    const location = this.#locatePart(message);
    const { kind, text } = part;
    const content = kind === 'refusal' ? { refusal: text } : { text, logprobs: [] };
    return [
      { type: `response.${kind}.done`, ...location, ...content },
      { type: 'response.content_part.done', ...location, part: formatPart(part) },
    ];
  }

  /** Returns the events that precede the end of an item. */
  #endContent(item: OutputItem): ResponseEvent[] {
    if (item.type === 'message') return this.#endPart(item);
    const location = this.#locateItem(item);
    if (item.type === 'function_call') {
      const { name, json } = item;
      const type = 'response.function_call_arguments.done';
      return [{ type, ...location, name, arguments: json }];
    }
    if (item.text === '') return [];
    const { text } = item;
    const part = { ...location, summary_index: 0 };
    return [
      { type: 'response.reasoning_summary_text.done', ...part, text },
      { type: 'response.reasoning_summary_part.done', ...part, part: formatSummary(text) },
    ];
  }

  #addThought({ isWhole, ...thought }: ThoughtPiece): ResponseEvent[] {
    const { text, signature, data } = thought;
    const events: ResponseEvent[] = [];
    let item = this.#open;
    if (item?.type !== 'reasoning') {
      item = { type: 'reasoning', id: this.#createId('rs'), text: '', details: [] };
      events.push(...this.#beginItem(item));
    }
    if (signature + data !== '') item.details.push(toReasoningDetail(thought));
    const isAlreadySent = isWhole && item.text.endsWith(text);
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

  #addCall({ index, id, name, json, extraContent }: ToolCallPiece): ResponseEvent[] {
    const events: ResponseEvent[] = [];
    let item = this.#open;
    if (item?.type !== 'function_call' || index !== this.#lastCall) {
      this.#lastCall = index;
      if (extraContent) {
        // A reasoning item without text contains the provider's data for the call after it.
        const dataId = this.#createId('rs');
        const data = { type: 'reasoning' as const, id: dataId, text: '', details: [] };
        events.push(...this.#beginItem({ ...data, extraContent }));
      }
      item = { type: 'function_call', id: this.#createId('fc'), callId: id, name, json: '' };
      events.push(...this.#beginItem(item));
    }
    item.json += json;
    if (json !== '') {
      const type = 'response.function_call_arguments.delta';
      events.push({ type, ...this.#locateItem(item), delta: json });
    }
    return events;
  }
}

/** Names of the reasons for an incomplete response in the Responses API, keyed by finish reason. */
const incompleteReasons: Readonly<Record<string, string>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

function toResponseStatus(finishReason: string | null): 'completed' | 'incomplete' {
  return incompleteReasons[finishReason ?? ''] === undefined ? 'completed' : 'incomplete';
}

/** Returns the fields of a response that has ended. */
function formatEnd(
  context: ChatContext,
  end: { finishReason: string | null; bill: ChatBill; items: ResponseItems; endedAtMs: number },
): object {
  const status = toResponseStatus(end.finishReason);
  const reason = incompleteReasons[end.finishReason ?? ''];
  return {
    status,
    ...(status === 'completed' && { completed_at: toUnixSeconds(end.endedAtMs) }),
    incomplete_details: reason === undefined ? null : { reason },
    output: restoreOutput(context, end.items.output(status)),
    usage: formatUsage(end.bill),
    creditsConsumed: end.bill.creditsConsumed,
    ...formatTried(context.chat),
  };
}

/** Converts function calls in the output to calls of the caller's tools. */
function restoreOutput({ request }: ChatContext, output: readonly object[]): object[] {
  const restorer = new ToolRestorer(request.toolForms);
  return output.map((item) => restorer.item(item));
}

/**
 * Returns the code in a failed response, from the closed list of OpenAI's types. The list lacks the
 * code of a context that is too long, which OpenAI sends and at which Codex shortens the chat. The
 * `error` event of the stream has the gateway's own codes.
 */
function toFailureCode({ code, status }: GatewayError): string {
  if (code === 'CONTEXT_LENGTH_EXCEEDED') return 'context_length_exceeded';
  if (status === 429) return 'rate_limit_exceeded';
  return status < 500 ? 'invalid_prompt' : 'server_error';
}

function formatErrorEvent(error: GatewayError, { requestId }: ChatContext): ResponseEvent {
  const param = error.details?.[0]?.path ?? null;
  return {
    ...formatOpenaiError(error, requestId),
    type: 'error',
    code: toOpenaiCode(error),
    param,
  };
}

/** State of a response that is not complete. */
interface Unfinished {
  status: 'queued' | 'in_progress' | 'failed' | 'cancelled';
  error: GatewayError | null;
  bill: ChatBill | null;
}

function formatUnfinished(
  context: ChatContext,
  { status, error, bill }: Unfinished,
  items: ResponseItems,
): object {
  return {
    status,
    ...(error &&
      status === 'failed' && { error: { code: toFailureCode(error), message: error.message } }),
    output: restoreOutput(context, items.output('incomplete')),
    ...(bill && { usage: formatUsage(bill), creditsConsumed: bill.creditsConsumed }),
  };
}

/** Formats the response of a chat job that is not complete, with the output so far. */
export function formatUnfinishedResponse(
  context: ChatContext,
  {
    createdAtMs,
    steps,
    ...state
  }: Unfinished & { createdAtMs: number; steps: readonly StreamStep[] },
): object {
  const items = new ResponseItems(context.chat.id);
  for (const { chunk } of steps) items.add(chunk);
  const fields = formatUnfinished(context, state, items);
  return formatResponse(context, toUnixSeconds(createdAtMs), fields);
}

/** Times of the response of a chat job, and the number of the last event that its reader has. */
export interface StoredResponse {
  createdAtMs: number;
  /** Time at which the answer ended; null if it has not. */
  endedAtMs: number | null;
  startingAfter?: number;
}

/**
 * Creates the presentation of one chat. It keeps the output items of the stream. The events of a chat
 * job (`stored`) are the same each time.
 */
export function createResponsesPresentation(stored?: StoredResponse): Presentation {
  const createdAt = toUnixSeconds(stored?.createdAtMs ?? Date.now());
  const findEnd = (): number => stored?.endedAtMs ?? Date.now();
  const { startingAfter = -1 } = stored ?? {};
  let items: ResponseItems | null = null;
  let restorer: ToolRestorer | null = null;
  let sequenceNumber = 0;

  const formatNext = ({ type, ...fields }: ResponseEvent): string => {
    const data = { type, sequence_number: sequenceNumber, ...fields };
    sequenceNumber += 1;
    return data.sequence_number > startingAfter ? formatEvent(data, type) : '';
  };
  const formatEvents = (context: ChatContext, events: readonly ResponseEvent[]): string => {
    restorer ??= new ToolRestorer(context.request.toolForms);
    return events
      .flatMap((event) => restorer?.events(event) ?? [])
      .map(formatNext)
      .join('');
  };
  /** Returns the output items, and at the first call also the events that start the stream. */
  const start = (context: ChatContext): { items: ResponseItems; text: string } => {
    if (items) return { items, text: '' };
    items = new ResponseItems(context.chat.id);
    const response = formatResponse(context, createdAt, { status: 'in_progress', output: [] });
    const created = formatNext({ type: 'response.created', response });
    return { items, text: created + formatNext({ type: 'response.in_progress', response }) };
  };

  return {
    keepalive: commentKeepalive,
    body(context, { steps, finishReason }, bill) {
      const responseItems = new ResponseItems(context.chat.id);
      for (const { chunk } of steps) responseItems.add(chunk);
      const endedAtMs = findEnd();
      const end = formatEnd(context, { finishReason, bill, items: responseItems, endedAtMs });
      return JSON.stringify(formatResponse(context, createdAt, end));
    },
    steps(context, steps) {
      const { items: outputItems, text: startText } = start(context);
      const events = steps.flatMap(({ chunk }) => outputItems.add(chunk));
      return startText + formatEvents(context, events);
    },
    end(context, bill) {
      const { items: outputItems, text: startText } = start(context);
      const { finishReason } = context.chat.streamMetadata;
      const status = toResponseStatus(finishReason);
      const endedAtMs = findEnd();
      const end = formatEnd(context, { finishReason, bill, items: outputItems, endedAtMs });
      const response = formatResponse(context, createdAt, end);
      const events = [...outputItems.end(status), { type: `response.${status}`, response }];
      return startText + formatEvents(context, events);
    },
    failure(context, error, bill) {
      const { items: outputItems, text: startText } = start(context);
      const charge = bill && { creditsConsumed: bill.creditsConsumed };
      const event = { ...formatErrorEvent(error, context), ...charge };
      const ended = outputItems.end('incomplete');
      const status = stored && error.code === 'CANCELED' ? 'cancelled' : 'failed';
      const state = formatUnfinished(context, { status, error, bill }, outputItems);
      const response = formatResponse(context, createdAt, state);
      // Clients act on either of the two last events.
      const events = [...ended, event, { type: 'response.failed', response }];
      return startText + formatEvents(context, events);
    },
  };
}
