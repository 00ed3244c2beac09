/**
 * Streams of Anthropic's Messages API. Source: the types of @anthropic-ai/sdk,
 * `RawMessageStreamEvent`.
 */
import type { JsonObject } from '../../domain/json.ts';
import { upstreamRefused } from '../upstream-failures.ts';
import { finishReasonOf, usageOf, type AnthropicUsage } from './anthropic-usage.ts';
import { parseObject, tokenCount, type StreamReader, type StreamStep } from './protocol.ts';
import { answerTool } from './structured-answer.ts';

/** Fields of the events that are read. */
interface StreamEvent {
  type?: string;
  index?: number;
  message?: { id?: string; model?: string; usage?: AnthropicUsage };
  content_block?: {
    type?: string;
    id?: string;
    name?: string;
    text?: string;
    thinking?: string;
    data?: string;
  };
  delta?: {
    type?: string;
    text?: string;
    thinking?: string;
    signature?: string;
    partial_json?: string;
    stop_reason?: string;
    stop_sequence?: string | null;
  };
  usage?: AnthropicUsage;
  error?: { type?: string; message?: string };
}

const overloaded = new Set(['overloaded_error', 'rate_limit_error']);

/** Reads a stream of message events. */
export class AnthropicReader implements StreamReader {
  complete = false;
  finishReason: string | null = null;
  stopSequence: string | null = null;
  usage: StreamReader['usage'] = { final: false };
  readonly head = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  /** Index of the tool call by the index of its content block; null for the structured answer. */
  readonly #calls = new Map<number, number | null>();
  /** Text of the thought that is being streamed. */
  #thoughtText = '';

  read({ data }: { data: string }): StreamStep | null {
    const event: StreamEvent = parseObject(data);
    switch (event.type ?? '') {
      case 'message_start':
        return this.#start(event);
      case 'content_block_start':
        return this.#startBlock(event);
      case 'content_block_delta':
        return this.#delta(event);
      case 'message_delta':
        return this.#end(event);
      case 'message_stop':
        this.complete = true;
        return null;
      case 'error': {
        const { type = '', message = '' } = event.error ?? {};
        const status = overloaded.has(type) ? 529 : 500;
        throw upstreamRefused(status, { message, code: type, param: '', retryAfter: undefined });
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

  #start({ message = {} }: StreamEvent): StreamStep {
    this.head.id = message.id ?? '';
    this.head.model = message.model ?? '';
    this.usage = { ...usageOf(message.usage ?? {}), final: false };
    return this.#step({ role: 'assistant', content: '' });
  }

  #startBlock({ index = 0, content_block: block = {} }: StreamEvent): StreamStep | null {
    if (block.type === 'redacted_thinking') {
      return this.#details({ type: 'reasoning.encrypted', data: block.data ?? '', index });
    }
    if (block.type === 'thinking' && block.thinking) return this.#thought(block.thinking);
    if (block.type !== 'tool_use') return block.text ? this.#text(block.text) : null;
    const { id = '', name = '' } = block;
    if (name === answerTool) {
      this.#calls.set(index, null);
      return null;
    }
    const call = [...this.#calls.values()].filter((each) => each !== null).length;
    this.#calls.set(index, call);
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
   * Sends a whole thought with its signature, once: OpenAI's client keeps the last value of a field
   * that it does not know, and other clients join the texts of all.
   */
  #signed(signature: string, index: number): StreamStep {
    const text = this.#thoughtText;
    this.#thoughtText = '';
    return this.#details({ type: 'reasoning.text', text, signature, index });
  }

  #details(detail: JsonObject): StreamStep {
    return this.#step({ reasoning_details: [detail] });
  }

  #delta({ index = 0, delta = {} }: StreamEvent): StreamStep | null {
    switch (delta.type ?? '') {
      case 'text_delta':
        return this.#text(delta.text ?? '');
      case 'thinking_delta':
        return this.#thought(delta.thinking ?? '');
      case 'signature_delta':
        return this.#signed(delta.signature ?? '', index);
      case 'input_json_delta':
        return this.#json(index, delta.partial_json ?? '');
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

  #end({ delta = {}, usage = {} }: StreamEvent): StreamStep {
    // A provider may repeat the input here, with or without the tokens of its cache.
    const { outputTokens, ...input } = usageOf(usage);
    const known = this.usage.inputTokens === undefined ? input : {};
    this.usage = { ...this.usage, ...known };
    if (outputTokens !== undefined) this.usage.outputTokens = outputTokens;
    // The last count of output covers the whole message; the first one, in its start, does not.
    this.usage.final =
      this.usage.inputTokens !== undefined && tokenCount(usage.output_tokens) !== undefined;
    const calls = [...this.#calls.values()];
    const isAnswered = calls.length > 0 && calls.every((call) => call === null);
    this.stopSequence = delta.stop_sequence ?? null;
    this.finishReason = isAnswered ? 'stop' : (finishReasonOf(delta.stop_reason) ?? 'stop');
    return this.#step({}, { finishReason: this.finishReason });
  }
}
