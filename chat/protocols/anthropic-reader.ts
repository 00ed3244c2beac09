/**
 * Parses streams of Anthropic's Messages API. Source: the types of @anthropic-ai/sdk,
 * `RawMessageStreamEvent`.
 */
import { asRecord, asText, type JsonObject } from '../../domain/json.ts';
import { errorFromReport } from '../upstream-failures.ts';
import { toFinishReason, parseAnthropicUsage } from './anthropic-usage.ts';
import { parseObject, parseTokenCount, type StreamReader, type StreamStep } from './protocol.ts';
import { answerTool } from './structured-answer.ts';

/** Fields of an event. Any field may be missing or have another type than documented. */
type Fields = Record<string, unknown>;

const busyErrors = new Set(['overloaded_error', 'rate_limit_error']);

/** Parser of one stream of message events. */
export class AnthropicReader implements StreamReader {
  complete = false;
  finishReason: string | null = null;
  stopSequence: string | null = null;
  usage: StreamReader['usage'] = { final: false };
  readonly head = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  /** Index of each tool call, by the index of its content block; null for a structured answer. */
  readonly #calls = new Map<number, number | null>();
  readonly #provider: string;
  /** Text of the thought that is being streamed. */
  #thoughtText = '';
  /** Length of the text so far, in UTF-16 units. */
  #textLength = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  read({ data }: { data: string }): StreamStep | null {
    const event = parseObject(data);
    switch (event['type']) {
      case 'message_start':
        return this.#readMessageStart(asRecord(event['message']));
      case 'content_block_start':
        return this.#readBlockStart(readBlockIndex(event), asRecord(event['content_block']));
      case 'content_block_delta':
        return this.#readBlockDelta(readBlockIndex(event), asRecord(event['delta']));
      case 'message_delta':
        return this.#readMessageEnd(asRecord(event['delta']), asRecord(event['usage']));
      case 'message_stop':
        this.complete = true;
        return null;
      case 'error': {
        const { type, message } = asRecord(event['error']);
        const code = asText(type);
        const status = busyErrors.has(code) ? 529 : 500;
        const report = { message: asText(message), code, param: '', retryAfter: undefined };
        throw errorFromReport(status, report);
      }
      default:
        return null;
    }
  }

  #buildStep(
    delta: JsonObject,
    { text = '', outputText = '', finishReason = '' } = {},
  ): StreamStep {
    return {
      text,
      outputText,
      chunk: {
        object: 'chat.completion.chunk',
        created: this.head.created,
        choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason || null }],
      },
    };
  }

  #readMessageStart({ id, model, usage }: Fields): StreamStep {
    this.head.id = asText(id);
    this.head.model = asText(model);
    this.usage = { ...parseAnthropicUsage(asRecord(usage)), final: false };
    return this.#buildStep({ role: 'assistant', content: '' });
  }

  #readBlockStart(index: number, block: Fields): StreamStep | null {
    const text = asText(block['text']);
    const thought = asText(block['thinking']);
    const name = asText(block['name']);
    if (block['type'] === 'redacted_thinking') {
      return this.#buildDetailsStep({
        type: 'reasoning.encrypted',
        data: asText(block['data']),
        index,
      });
    }
    if (block['type'] === 'thinking' && thought !== '') return this.#buildThoughtStep(thought);
    if (block['type'] !== 'tool_use') return text === '' ? null : this.#buildTextStep(text);
    if (name === answerTool) {
      this.#calls.set(index, null);
      return null;
    }
    const call = this.#callCount;
    this.#calls.set(index, call);
    const startedCall = {
      index: call,
      id: asText(block['id']),
      type: 'function',
      function: { name, arguments: '' },
      content_offset: this.#textLength,
    };
    return this.#buildStep({ tool_calls: [startedCall] }, { outputText: name });
  }

  /** Number of tool calls so far. */
  get #callCount(): number {
    return [...this.#calls.values()].filter((position) => position !== null).length;
  }

  #buildTextStep(text: string): StreamStep {
    this.#textLength += text.length;
    return this.#buildStep({ content: text }, { text, outputText: text });
  }

  #buildThoughtStep(text: string): StreamStep {
    this.#thoughtText += text;
    return this.#buildStep({ reasoning_content: text }, { outputText: text });
  }

  /**
   * Returns a complete thought with its signature in one step. Callers could not assemble a thought
   * sent in parts: OpenAI's client keeps only the last value of an unknown field, and other clients
   * concatenate all values.
   */
  #buildCompleteThoughtStep(signature: string, index: number): StreamStep {
    const text = this.#thoughtText;
    this.#thoughtText = '';
    return this.#buildDetailsStep({ type: 'reasoning.text', text, signature, index });
  }

  /** Returns a thought with its provider and its place (chat/answer-blocks.ts). */
  #buildDetailsStep(detail: JsonObject): StreamStep {
    const place = { tool_call_index: this.#callCount, content_offset: this.#textLength };
    return this.#buildStep({
      reasoning_details: [{ ...detail, provider: this.#provider, ...place }],
    });
  }

  #readBlockDelta(index: number, delta: Fields): StreamStep | null {
    switch (delta['type']) {
      case 'text_delta':
        return this.#buildTextStep(asText(delta['text']));
      case 'thinking_delta':
        return this.#buildThoughtStep(asText(delta['thinking']));
      case 'signature_delta':
        return this.#buildCompleteThoughtStep(asText(delta['signature']), index);
      case 'input_json_delta':
        return this.#readJsonDelta(index, asText(delta['partial_json']));
      default:
        return null;
    }
  }

  #readJsonDelta(index: number, json: string): StreamStep {
    const call = this.#calls.get(index);
    if (call === null) return this.#buildTextStep(json);
    const piece = { index: call ?? 0, function: { arguments: json } };
    return this.#buildStep({ tool_calls: [piece] }, { outputText: json });
  }

  #readMessageEnd(delta: Fields, usage: Fields): StreamStep {
    // The input tokens here may lack the cached tokens, and those reported at the start may be 0.
    // The larger count is correct.
    const { outputTokens, ...input } = parseAnthropicUsage(usage);
    const { inputTokens: inputTokensAtStart = 0 } = this.usage;
    if ((input.inputTokens ?? -1) >= inputTokensAtStart) this.usage = { ...this.usage, ...input };
    if (outputTokens !== undefined) this.usage.outputTokens = outputTokens;
    // Unlike the count in `message_start`, that in `message_delta` covers the whole output.
    this.usage.final = this.usage.inputTokens !== undefined && outputTokens !== undefined;
    const calls = [...this.#calls.values()];
    const isStructuredAnswer = calls.length > 0 && calls.every((call) => call === null);
    this.stopSequence = asText(delta['stop_sequence']) || null;
    this.finishReason = toFinishReason(delta['stop_reason'], isStructuredAnswer) ?? 'stop';
    return this.#buildStep({}, { finishReason: this.finishReason });
  }
}

/** Returns the index of the content block of an event; 0 if it is missing. */
function readBlockIndex({ index }: Fields): number {
  return parseTokenCount(index) ?? 0;
}
