/** Anthropic Messages. Sources: the types of @anthropic-ai/sdk and Anthropic's API reference. */
import { z } from 'zod';
import { upstreamRefused } from '../upstream-failures.ts';
import { encodeAnthropic } from './anthropic-request.ts';
import {
  parseObject,
  tokenCount,
  type ChatProtocol,
  type ChatAnswer,
  type StreamReader,
  type StreamStep,
} from './protocol.ts';
import type { JsonObject } from '../../domain/json.ts';

const errorShape = z.object({
  error: z.object({ type: z.string().nullish(), message: z.string().nullish() }),
});

/** Anthropic’s Messages API as a protocol of upstreams. */
export const anthropicProtocol: ChatProtocol = {
  path: '/v1/messages',
  headers: (apiKey) => ({ 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }),
  encode: encodeAnthropic,
  boundField: () => 'max_tokens',
  decode: decodeAnthropic,
  createReader: () => new AnthropicReader(),
  failureOf({ status, body, retryAfter }) {
    const error = errorShape.safeParse(body).data?.error;
    return upstreamRefused(status, {
      message: error?.message ?? '',
      code: error?.type ?? '',
      param: '',
      retryAfter,
    });
  },
};

const finishReasons: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

function finishReasonOf(stopReason: unknown): string | null {
  return typeof stopReason === 'string' ? (finishReasons[stopReason] ?? 'stop') : null;
}

interface Usage {
  input_tokens?: unknown;
  cache_creation_input_tokens?: unknown;
  cache_read_input_tokens?: unknown;
  output_tokens?: unknown;
}

/** All input is input: what came from a cache is told apart in the details only. */
function inputTokensOf(usage: Usage): number | undefined {
  const fresh = tokenCount(usage.input_tokens);
  if (fresh === undefined) return undefined;
  const cached = tokenCount(usage.cache_read_input_tokens) ?? 0;
  return fresh + cached + (tokenCount(usage.cache_creation_input_tokens) ?? 0);
}

function openaiUsage(input: number, output: number, cached: number): JsonObject {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

const messageShape = z.object({
  id: z.string(),
  model: z.string(),
  stop_reason: z.string().nullish(),
  content: z.array(
    z.object({
      type: z.string(),
      text: z.string().optional(),
      thinking: z.string().optional(),
      id: z.string().optional(),
      name: z.string().optional(),
      input: z.unknown().optional(),
    }),
  ),
  usage: z.record(z.string(), z.unknown()).nullish(),
});

/** A whole message; null for an answer that is none. */
function decodeAnthropic(answer: unknown): ChatAnswer | null {
  const parsed = messageShape.safeParse(answer);
  if (!parsed.success) return null;
  const { id, model, content, stop_reason: stopReason, usage } = parsed.data;
  const text = content.map((block) => block.text ?? '').join('');
  const calls = content
    .filter((block) => block.type === 'tool_use')
    .map((block) => ({
      id: block.id ?? '',
      type: 'function',
      function: { name: block.name ?? '', arguments: JSON.stringify(block.input ?? {}) },
    }));
  const finishReason = finishReasonOf(stopReason) ?? 'stop';
  const input = usage ? inputTokensOf(usage) : undefined;
  const output = tokenCount(usage?.['output_tokens']);
  const known = input !== undefined && output !== undefined;
  const cached = tokenCount(usage?.['cache_read_input_tokens']) ?? 0;
  return {
    completion: {
      id,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: text === '' && calls.length > 0 ? null : text,
            refusal: null,
            ...(calls.length > 0 && { tool_calls: calls }),
          },
          logprobs: null,
          finish_reason: finishReason,
        },
      ],
      ...(known && { usage: openaiUsage(input, output, cached) }),
    },
    text,
    finishReason,
    usage: known ? { inputTokens: input, outputTokens: output } : null,
    written:
      text +
      content.map((block) => block.thinking ?? '').join('') +
      calls.map((call) => call.function.name + call.function.arguments).join(''),
  };
}

/** What we read of the events; the types of @anthropic-ai/sdk, `RawMessageStreamEvent`. */
interface StreamEvent {
  type?: string;
  index?: number;
  message?: { id?: string; model?: string; usage?: Usage };
  content_block?: { type?: string; id?: string; name?: string; text?: string };
  delta?: {
    type?: string;
    text?: string;
    thinking?: string;
    partial_json?: string;
    stop_reason?: string;
  };
  usage?: Usage;
  error?: { type?: string; message?: string };
}

const overloaded = new Set(['overloaded_error', 'rate_limit_error']);
const nothing: StreamStep = { chunk: null, text: '', written: '' };

/** Reads a stream of message events. */
class AnthropicReader implements StreamReader {
  complete = false;
  finishReason: string | null = null;
  readonly usage: StreamReader['usage'] = { final: false };
  readonly head = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  /** Content block index → index of the tool call. */
  readonly #calls = new Map<number, number>();

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

  #chunk(delta: JsonObject, finishReason: string | null = null): string {
    return JSON.stringify({
      id: this.head.id,
      object: 'chat.completion.chunk',
      created: this.head.created,
      model: this.head.model,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
    });
  }

  #note(usage: Usage | undefined): void {
    const input = usage && inputTokensOf(usage);
    if (input !== undefined) this.usage.inputTokens = input;
    const output = tokenCount(usage?.output_tokens);
    if (output !== undefined) this.usage.outputTokens = output;
  }

  #start({ message = {} }: StreamEvent): StreamStep {
    this.head.id = message.id ?? '';
    this.head.model = message.model ?? '';
    this.#note(message.usage);
    return { ...nothing, chunk: this.#chunk({ role: 'assistant', content: '' }) };
  }

  #startBlock({ index = 0, content_block: block = {} }: StreamEvent): StreamStep | null {
    if (block.type !== 'tool_use') return block.text ? this.#text(block.text) : null;
    const call = this.#calls.size;
    this.#calls.set(index, call);
    const { id = '', name = '' } = block;
    const started = { index: call, id, type: 'function', function: { name, arguments: '' } };
    return { text: '', written: name, chunk: this.#chunk({ tool_calls: [started] }) };
  }

  #text(text: string): StreamStep {
    return { text, written: text, chunk: this.#chunk({ content: text }) };
  }

  #delta({ index = 0, delta = {} }: StreamEvent): StreamStep | null {
    if (delta.type === 'text_delta') return this.#text(delta.text ?? '');
    if (delta.type === 'thinking_delta') return { ...nothing, written: delta.thinking ?? '' };
    if (delta.type !== 'input_json_delta') return null;
    const written = delta.partial_json ?? '';
    const call = { index: this.#calls.get(index) ?? 0, function: { arguments: written } };
    return { text: '', written, chunk: this.#chunk({ tool_calls: [call] }) };
  }

  #end({ delta = {}, usage }: StreamEvent): StreamStep {
    this.#note(usage);
    // The last count of output covers the whole message; the first one, in its start, did not.
    const output = tokenCount(usage?.output_tokens);
    this.usage.final = this.usage.inputTokens !== undefined && output !== undefined;
    this.finishReason = finishReasonOf(delta.stop_reason) ?? 'stop';
    return { ...nothing, chunk: this.#chunk({}, this.finishReason) };
  }
}
