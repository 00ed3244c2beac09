/**
 * Reads the blocks of an answer in OpenAI's format, in the order in which the model made them. The
 * format has separate fields for reasoning, text and tool calls, so the gateway adds the place of
 * each thought and tool call: `tool_call_index` is the number of tool calls before a thought, and
 * `content_offset` is the number of UTF-16 units of `content` before a thought or a tool call.
 */
import { asRecord, asText, isRecord, type JsonObject } from '../domain/json.ts';
import type { AnswerBlock, Thought, ToolCall } from './chat-body.ts';

type TextBlock = Extract<AnswerBlock, { type: 'text' }>;
type Fields = Record<string, unknown>;

/** Place of a thought in its answer. */
interface PlacedThought {
  thought: Thought;
  callsBefore: number;
  offset: number;
  index: unknown;
}

/**
 * Returns the blocks of a message. Fields that a provider or a client has omitted or changed count
 * as empty; thoughts without a place precede the text, and tool calls follow it.
 */
export function readBlocks(message: Fields): AnswerBlock[] {
  const texts = readTexts(message['content']);
  const blocks: AnswerBlock[] = [];
  let offset = 0;
  const addTextUntil = (end: number): void => {
    while (offset < end) {
      const [first] = texts;
      if (!first) return;
      const text = first.text.slice(0, end - offset);
      offset += text.length;
      blocks.push({ ...first, text });
      if (text.length === first.text.length) texts.shift();
      else first.text = first.text.slice(text.length);
    }
  };
  const thoughts = readThoughts(message);
  const addThoughtsBefore = (callsBefore: number): void => {
    for (;;) {
      const [first] = thoughts;
      if (!first || first.callsBefore > callsBefore) return;
      addTextUntil(first.offset);
      blocks.push(first.thought);
      thoughts.shift();
    }
  };
  const calls = Array.isArray(message['tool_calls']) ? message['tool_calls'].filter(isRecord) : [];
  for (const [index, call] of calls.entries()) {
    addThoughtsBefore(index);
    addTextUntil(readCount(call['content_offset'], Infinity));
    blocks.push(readCall(call));
  }
  addThoughtsBefore(Infinity);
  addTextUntil(Infinity);
  const refusal = asText(message['refusal']);
  return refusal === '' ? blocks : [...blocks, { type: 'refusal', refusal }];
}

function readCount(value: unknown, missing: number): number {
  return typeof value === 'number' && value >= 0 ? value : missing;
}

/** Returns the text blocks of a content, which is a string or a list of parts. */
function readTexts(content: unknown): TextBlock[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  if (!Array.isArray(content)) return [];
  return content.map(asRecord).flatMap(({ type, text, refusal, cache_control: marker }) => {
    const textOfPart = asText(type === 'refusal' ? refusal : text);
    if (textOfPart === '') return [];
    return [
      { type: 'text', text: textOfPart, ...(isRecord(marker) && { cache_control: cacheMark }) },
    ] satisfies TextBlock[];
  });
}

const cacheMark = { type: 'ephemeral' } as const;

/** Returns the tool call in an entry of `tool_calls`. */
function readCall(call: Fields): ToolCall {
  const { name, arguments: json } = asRecord(call['function']);
  const { extra_content: extra, cache_control: marker } = call;
  return {
    id: asText(call['id']),
    type: 'function',
    function: { name: asText(name), arguments: asText(json) },
    ...(isRecord(marker) && { cache_control: cacheMark }),
    // oxlint-disable-next-line no-unsafe-type-assertion -- a part of a parsed JSON body
    ...(isRecord(extra) && { extra_content: extra as JsonObject }),
  };
}

/** Returns the thoughts of a message in the order of their places. */
function readThoughts(message: Fields): PlacedThought[] {
  const { reasoning_details: details } = message;
  const placed: PlacedThought[] = [];
  for (const detail of Array.isArray(details) ? details.filter(isRecord) : []) {
    const { index } = detail;
    const thought = readThought(detail);
    if (thought.text === '' && thought.signature === '' && thought.data === '') continue;
    const last = placed.at(-1);
    // A streamed thought may have several entries; only the last one has a signature.
    const continues =
      last?.index === index && last?.thought.signature === '' && thought.data === '';
    if (last && continues && last.thought.data === '') {
      last.thought = { ...thought, text: last.thought.text + thought.text };
    } else {
      const callsBefore = readCount(detail['tool_call_index'], 0);
      placed.push({ thought, callsBefore, offset: readCount(detail['content_offset'], 0), index });
    }
  }
  if (placed.length > 0) {
    return placed.toSorted((a, b) => a.callsBefore - b.callsBefore || a.offset - b.offset);
  }
  const text = asText(message['reasoning_content']) || asText(message['reasoning']);
  if (text === '') return [];
  const thought = { type: 'thought' as const, text, signature: '', data: '', provider: '' };
  return [{ thought, callsBefore: 0, offset: 0, index: 0 }];
}

/**
 * Returns the thought in an entry of `reasoning_details`. An entry with a signature but without a
 * provider, which some clients remove, counts as Anthropic's, because the format is.
 */
export function readThought(detail: Fields): Thought {
  const { text, signature, data, provider } = detail;
  const isSigned = asText(signature) !== '' || asText(data) !== '';
  return {
    type: 'thought',
    text: asText(text),
    signature: asText(signature),
    data: asText(data),
    provider: asText(provider) || (isSigned ? 'anthropic' : ''),
  };
}

/** Converts a thought to an entry of `reasoning_details`. */
export function toReasoningDetail({ text, signature, data, provider }: Thought): JsonObject {
  return {
    ...(data === ''
      ? { type: 'reasoning.text', text, ...(signature !== '' && { signature }) }
      : { type: 'reasoning.encrypted', data }),
    ...(provider !== '' && { provider }),
  };
}
