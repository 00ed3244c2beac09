/**
 * Parses streams of Anthropic's Messages API. Source: the types of @anthropic-ai/sdk,
 * `RawMessageStreamEvent`.
 */
import { fieldsOf, textOf, type JsonObject } from '../../domain/json.ts';
import { errorFromReport } from '../upstream-failures.ts';
import { finishReasonOf, usageOf } from './anthropic-usage.ts';
import { parseObject, tokenCount, type StreamReader, type StreamStep } from './protocol.ts';
import { answerTool } from './structured-answer.ts';

/** Fields of an event. They may be missing or have other types than documented. */
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
  /** Text of the thought that is being streamed. */
  #thoughtText = '';

  read({ data }: { data: string }): StreamStep | null {
    const event = parseObject(data);
    switch (event['type']) {
      case 'message_start':
        return this.#start(fieldsOf(event['message']));
      case 'content_block_start':
        return this.#startBlock(indexOf(event), fieldsOf(event['content_block']));
      case 'content_block_delta':
        return this.#delta(indexOf(event), fieldsOf(event['delta']));
      case 'message_delta':
        return this.#end(fieldsOf(event['delta']), fieldsOf(event['usage']));
      case 'message_stop':
        this.complete = true;
        return null;
      case 'error': {
        const { type, message } = fieldsOf(event['error']);
        const code = textOf(type);
        const status = busyErrors.has(code) ? 529 : 500;
        const report = { message: textOf(message), code, param: '', retryAfter: undefined };
        throw errorFromReport(status, report);
      }
      default:
        return null;
    }
  }

  #step(delta: JsonObject, { text = '', written = '', finishReason = '' } = {}): StreamStep {
    return {
      text,
      written,
      chunk: {
        object: 'chat.completion.chunk',
        created: this.head.created,
        choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason || null }],
      },
    };
  }

  #start({ id, model, usage }: Fields): StreamStep {
    this.head.id = textOf(id);
    this.head.model = textOf(model);
    this.usage = { ...usageOf(fieldsOf(usage)), final: false };
    return this.#step({ role: 'assistant', content: '' });
  }

  #startBlock(index: number, block: Fields): StreamStep | null {
    const text = textOf(block['text']);
    const thought = textOf(block['thinking']);
    const name = textOf(block['name']);
    if (block['type'] === 'redacted_thinking') {
      return this.#details({ type: 'reasoning.encrypted', data: textOf(block['data']), index });
    }
    if (block['type'] === 'thinking' && thought !== '') return this.#thought(thought);
    if (block['type'] !== 'tool_use') return text === '' ? null : this.#text(text);
    if (name === answerTool) {
      this.#calls.set(index, null);
      return null;
    }
    const call = [...this.#calls.values()].filter((position) => position !== null).length;
    this.#calls.set(index, call);
    const id = textOf(block['id']);
    const started = { index: call, id, type: 'function', function: { name, arguments: '' } };
    return this.#step({ tool_calls: [started] }, { written: name });
  }

  #text(text: string): StreamStep {
    return this.#step({ content: text }, { text, written: text });
  }

  #thought(text: string): StreamStep {
    this.#thoughtText += text;
    return this.#step({ reasoning_content: text }, { written: text });
  }

  /**
   * Returns the whole thought with its signature in one step. For a field that they do not know,
   * OpenAI's client uses only the last value, and other clients concatenate all values.
   */
  #completeThought(signature: string, index: number): StreamStep {
    const text = this.#thoughtText;
    this.#thoughtText = '';
    return this.#details({ type: 'reasoning.text', text, signature, index });
  }

  #details(detail: JsonObject): StreamStep {
    return this.#step({ reasoning_details: [detail] });
  }

  #delta(index: number, delta: Fields): StreamStep | null {
    switch (delta['type']) {
      case 'text_delta':
        return this.#text(textOf(delta['text']));
      case 'thinking_delta':
        return this.#thought(textOf(delta['thinking']));
      case 'signature_delta':
        return this.#completeThought(textOf(delta['signature']), index);
      case 'input_json_delta':
        return this.#json(index, textOf(delta['partial_json']));
      default:
        return null;
    }
  }

  #json(index: number, json: string): StreamStep {
    const call = this.#calls.get(index);
    if (call === null) return this.#text(json);
    const piece = { index: call ?? 0, function: { arguments: json } };
    return this.#step({ tool_calls: [piece] }, { written: json });
  }

  #end(delta: Fields, usage: Fields): StreamStep {
    // A provider may repeat the input here without the tokens of its cache, or may have reported 0
    // tokens at the start. The larger count is right.
    const { outputTokens, ...input } = usageOf(usage);
    const { inputTokens: known = 0 } = this.usage;
    if ((input.inputTokens ?? -1) >= known) this.usage = { ...this.usage, ...input };
    if (outputTokens !== undefined) this.usage.outputTokens = outputTokens;
    // Only this count covers the whole output; the count in `message_start` does not.
    this.usage.final = this.usage.inputTokens !== undefined && outputTokens !== undefined;
    const calls = [...this.#calls.values()];
    const isStructuredAnswer = calls.length > 0 && calls.every((call) => call === null);
    this.stopSequence = textOf(delta['stop_sequence']) || null;
    this.finishReason = isStructuredAnswer
      ? 'stop'
      : (finishReasonOf(delta['stop_reason']) ?? 'stop');
    return this.#step({}, { finishReason: this.finishReason });
  }
}

/** Returns the index of the content block of an event; 0 if it is missing. */
function indexOf({ index }: Fields): number {
  return tokenCount(index) ?? 0;
}
