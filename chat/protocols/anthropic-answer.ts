/**
 * Parses answers of Anthropic's Messages API, streamed and whole. Source: the types of
 * @anthropic-ai/sdk, `RawMessageStreamEvent` and `Message`. Any field may be missing or have another
 * type than documented.
 */
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import type { ReportedUsage, TokenUsage } from '../bill.ts';
import { invalidResponseError } from '../upstream-failures.ts';
import {
  parseReport,
  parseTokenCount,
  type AnswerReader,
  type ExpectedResponse,
  type StreamEvent,
  type StreamStep,
} from './protocol.ts';
import { answerTool } from './structured-answer.ts';
import { joinOutput, StreamedChoice, type Delta } from './streamed-choice.ts';

type Fields = Record<string, unknown>;

/** Content block that is being read. */
interface Block {
  index: number;
  /** `answer` is the call of the tool whose arguments are a structured answer. */
  kind: 'text' | 'thinking' | 'tool' | 'answer' | 'other';
  /** Text of a thought, and its signature. */
  thought: string;
  signature: string;
  /** Arguments of a call that the start of the block contained; empty if there are none. */
  input: string;
}

/** Parser of one answer. */
export class AnthropicReader implements AnswerReader {
  isEnded = false;
  stopSequence: string | null = null;
  usage: ReportedUsage = { final: false };
  readonly head = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  readonly #choice: StreamedChoice;
  readonly #blocks = new Map<number, Block>();
  /** Block that began most recently. */
  #block: Block | null = null;
  #hasOutput = false;

  constructor(response: ExpectedResponse) {
    this.#choice = new StreamedChoice(response);
  }

  get complete(): boolean {
    return this.#choice.isFinished || (this.isEnded && this.#hasOutput);
  }

  get finishReason(): string | null {
    return this.#choice.finishReason;
  }

  read({ event, data }: StreamEvent): StreamStep[] {
    if (this.isEnded) return [];
    const value = parseReport(data, event);
    return value ? this.#readEvent(value) : [];
  }

  readDocument(text: string): StreamStep[] {
    const value = parseReport(text);
    this.isEnded = true;
    return value ? this.#readMessage(value) : [];
  }

  end(): StreamStep[] {
    const steps = [
      ...[...this.#blocks.values()].flatMap((block) => this.#endBlock(block)),
      ...this.#choice.end().map((delta) => this.#buildStep(delta)),
    ];
    return [...steps, this.#buildStep({}, this.finishReason)];
  }

  #readEvent(event: Fields): StreamStep[] {
    switch (event['type']) {
      case 'message_start':
        return this.#readMessageStart(asRecord(event['message']));
      case 'content_block_start':
        return this.#readBlockStart(event['index'], asRecord(event['content_block']));
      case 'content_block_delta':
        return this.#readBlockDelta(event['index'], asRecord(event['delta']));
      case 'content_block_stop':
        return this.#endBlock(this.#findBlock(event['index']));
      case 'message_delta':
        return this.#readMessageEnd(asRecord(event['delta']), asRecord(event['usage']));
      case 'message_stop':
        this.isEnded = true;
        return [];
      default:
        return [];
    }
  }

  /** Reads a whole message as the events of a stream. */
  #readMessage({ content, usage, ...message }: Fields): StreamStep[] {
    const blocks = Array.isArray(content) ? content.filter(isRecord) : [];
    const isStructured = blocks.some(({ name }) => name === answerTool);
    // Text beside a structured answer would make it invalid JSON.
    const kept = isStructured ? blocks.filter(({ type }) => type !== 'text') : blocks;
    return [
      ...this.#readMessageStart(message),
      ...kept.flatMap((block, index) => [
        ...this.#readBlockStart(index, block),
        ...this.#endBlock(this.#block),
      ]),
      ...this.#readMessageEnd(message, asRecord(usage)),
    ];
  }

  #readMessageStart({ id, model, usage }: Fields): StreamStep[] {
    this.head.id = asText(id);
    this.head.model = asText(model);
    // The count of output tokens here covers none of the deltas that follow.
    const { outputTokens: _, ...input } = parseAnthropicUsage(asRecord(usage));
    this.usage = { ...input, final: false };
    return this.#add({ content: '' });
  }

  #readBlockStart(reportedIndex: unknown, block: Fields): StreamStep[] {
    const index = parseTokenCount(reportedIndex) ?? this.#blocks.size;
    // Blocks of calls may overlap.
    const open = this.#block?.kind === 'tool' ? null : this.#block;
    const ended = [open, this.#blocks.get(index) ?? null].flatMap((one) => this.#endBlock(one));
    const { type, id, name, input } = block;
    const isAnswer = type === 'tool_use' && name === answerTool;
    const kind = type === 'tool_use' ? (isAnswer ? 'answer' : 'tool') : readKind(type);
    const begun = this.#begin(index, kind);
    if (kind === 'answer' || hasFields(input)) begun.input = JSON.stringify(input ?? {});
    if (kind === 'tool') {
      const call = { index, id, function: { name, arguments: '' } };
      return [...ended, ...this.#add({ tool_calls: [call] })];
    }
    if (type === 'redacted_thinking') {
      const detail = { type: 'reasoning.encrypted', data: asText(block['data']), index };
      return [...ended, ...this.#add({ reasoning_details: [detail] })];
    }
    begun.signature = asText(block['signature']);
    return [
      ...ended,
      ...this.#addText(asText(block['text'])),
      ...this.#addThought(begun, asText(block['thinking'])),
    ];
  }

  #begin(index: number, kind: Block['kind']): Block {
    const block: Block = { index, kind, thought: '', signature: '', input: '' };
    this.#blocks.set(index, block);
    this.#block = block;
    return block;
  }

  /** Returns the block with this index, or the most recent one if the index is missing. */
  #findBlock(index: unknown): Block | null {
    const number = parseTokenCount(index);
    return number === undefined ? this.#block : (this.#blocks.get(number) ?? null);
  }

  #readBlockDelta(index: unknown, delta: Fields): StreamStep[] {
    const { type } = delta;
    const block = this.#findBlock(index);
    if (type === 'text_delta') return this.#addText(asText(delta['text']));
    if (type === 'input_json_delta') return this.#addJson(block, asText(delta['partial_json']));
    if (type !== 'thinking_delta' && type !== 'signature_delta') return [];
    const isThought = block?.kind === 'thinking';
    const ended = isThought || this.#block?.kind === 'tool' ? [] : this.#endBlock(this.#block);
    const thought = isThought
      ? block
      : this.#begin(parseTokenCount(index) ?? this.#blocks.size, 'thinking');
    thought.signature += asText(delta['signature']);
    return [...ended, ...this.#addThought(thought, asText(delta['thinking']))];
  }

  #addText(text: string): StreamStep[] {
    return text === '' ? [] : this.#add({ content: text });
  }

  #addThought(block: Block, text: string): StreamStep[] {
    block.thought += text;
    return text === '' ? [] : this.#add({ reasoning_content: text });
  }

  /** Adds a piece of a call's arguments. @throws GatewayError if its block is no call */
  #addJson(block: Block | null, json: string): StreamStep[] {
    if (json === '') return [];
    if (block?.kind === 'answer') {
      block.input = '';
      return this.#addText(json);
    }
    if (block?.kind !== 'tool') throw invalidResponseError(null);
    block.input = '';
    return this.#add({ tool_calls: [{ index: block.index, function: { arguments: json } }] });
  }

  /**
   * Ends a block. A thought is returned again, whole and with its signature. Callers could not
   * assemble one that is sent in parts: OpenAI's client keeps only the last value of an unknown
   * field, and other clients concatenate all values.
   */
  #endBlock(block: Block | null): StreamStep[] {
    if (!block) return [];
    const { index, kind, thought: text, signature, input } = block;
    block.thought = '';
    block.signature = '';
    if (kind === 'thinking' && text + signature !== '') {
      return this.#add({ reasoning_details: [{ type: 'reasoning.text', text, signature, index }] });
    }
    const rest = input === '' ? [] : this.#addJson(block, input);
    if (kind !== 'tool') return rest;
    return [...rest, ...this.#choice.stopCall(index).map((delta) => this.#buildStep(delta))];
  }

  #readMessageEnd(delta: Fields, usage: Fields): StreamStep[] {
    // The input tokens here may lack the cached tokens, and those reported at the start may be 0.
    // The larger count is correct.
    const { outputTokens, ...input } = parseAnthropicUsage(usage);
    const { inputTokens: inputTokensAtStart = 0 } = this.usage;
    if ((input.inputTokens ?? -1) >= inputTokensAtStart) this.usage = { ...this.usage, ...input };
    if (outputTokens !== undefined) this.usage.outputTokens = outputTokens;
    // Unlike the count in `message_start`, that in `message_delta` covers the whole output.
    this.usage.final = outputTokens !== undefined;
    const ended = [...this.#blocks.values()].flatMap((block) => this.#endBlock(block));
    this.stopSequence ??= asText(delta['stop_sequence']) || null;
    this.#choice.finish(delta['stop_reason']);
    return ended;
  }

  #add(delta: Delta): StreamStep[] {
    if (joinOutput(delta) !== '') this.#hasOutput = true;
    return this.#choice.add(delta).map((part) => this.#buildStep(part));
  }

  #buildStep(delta: Delta, finishReason: string | null = null): StreamStep {
    const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason };
    return {
      chunk: { object: 'chat.completion.chunk', created: this.head.created, choices: [choice] },
      text: asText(delta['content']),
      outputText: joinOutput(delta),
    };
  }
}

function readKind(type: unknown): Block['kind'] {
  return type === 'text' || type === 'thinking' ? type : 'other';
}

function hasFields(input: unknown): boolean {
  return isRecord(input) && Object.keys(input).length > 0;
}

/**
 * Parses the usage that Anthropic reports; missing fields stay missing. Anthropic's `input_tokens`
 * does not include the tokens read from and written to the cache; `inputTokens` includes them.
 */
export function parseAnthropicUsage(reported: Fields): Partial<TokenUsage> {
  const uncachedInputTokens = parseTokenCount(reported['input_tokens']);
  const outputTokens = parseTokenCount(reported['output_tokens']);
  const cachedInputTokens = parseTokenCount(reported['cache_read_input_tokens']) ?? 0;
  const cacheWriteTokens = parseTokenCount(reported['cache_creation_input_tokens']) ?? 0;
  return {
    ...(uncachedInputTokens !== undefined && {
      inputTokens: uncachedInputTokens + cachedInputTokens + cacheWriteTokens,
      cachedInputTokens,
      cacheWriteTokens,
    }),
    ...(outputTokens !== undefined && { outputTokens }),
  };
}
