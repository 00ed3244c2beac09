/**
 * OpenAI's chat completions, which most providers serve under their own base URLs. Answers already
 * have the internal format.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { z } from 'zod';
import { upstreamRefused } from '../upstream-failures.ts';
import { isRecord, textOf } from '../../domain/json.ts';
import type { TokenUsage } from '../chat-price.ts';
import { boundOpenai, encodeOpenai } from './openai-request.ts';
import {
  parseObject,
  tokenCount,
  type ChatAnswer,
  type ChatProtocol,
  type StreamReader,
  type StreamStep,
} from './protocol.ts';

const errorShape = z.object({
  error: z.union([
    z.string().transform((message) => ({ message, code: null, type: null, param: null })),
    z.object({
      message: z.string().nullish(),
      code: z.union([z.string(), z.number()]).nullish(),
      type: z.string().nullish(),
      param: z.string().nullish(),
    }),
  ]),
});

/** OpenAI’s chat completions as a protocol of upstreams. */
export const openaiProtocol: ChatProtocol = {
  path: '/chat/completions',
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  encode: encodeOpenai,
  bounded: boundOpenai,
  decode,
  createReader: () => new OpenaiReader(),
  failureOf: ({ status, body, retryAfter }) =>
    upstreamRefused(status, { ...reportOf(body), retryAfter }),
};

function reportOf(body: unknown): { message: string; code: string; param: string } {
  const parsed = errorShape.safeParse(Array.isArray(body) ? body[0] : body);
  const error = parsed.data?.error;
  return {
    message: error?.message ?? '',
    code: String(error?.code ?? error?.type ?? ''),
    param: error?.param ?? '',
  };
}

/**
 * Reads usage in OpenAI's format. Some providers leave reasoning tokens out of `completion_tokens`
 * but include them in the total, so all tokens that are not input count as output.
 */
function readUsage(value: unknown): TokenUsage | null {
  if (!isRecord(value)) return null;
  const inputTokens = tokenCount(value['prompt_tokens']);
  const completion = tokenCount(value['completion_tokens']);
  if (inputTokens === undefined || completion === undefined) return null;
  const total = tokenCount(value['total_tokens']) ?? 0;
  const detail = (group: string, field: string): number | undefined => {
    const details = value[group];
    return isRecord(details) ? tokenCount(details[field]) : undefined;
  };
  const audio = detail('prompt_tokens_details', 'audio_tokens');
  return {
    inputTokens,
    ...(audio !== undefined && { audioInputTokens: audio }),
    // DeepSeek and Moonshot AI name the cached tokens outside of the details.
    cachedInputTokens:
      detail('prompt_tokens_details', 'cached_tokens') ??
      tokenCount(value['prompt_cache_hit_tokens']) ??
      tokenCount(value['cached_tokens']) ??
      0,
    outputTokens: Math.max(completion, total - inputTokens),
    reasoningTokens: detail('completion_tokens_details', 'reasoning_tokens') ?? 0,
  };
}

/**
 * Returns all output of the model in a message or a delta: text, refusals, visible reasoning, tool
 * calls.
 */
function writtenOf(part: Record<string, unknown>): string {
  const text =
    textOf(part['content']) +
    textOf(part['refusal']) +
    (textOf(part['reasoning_content']) || textOf(part['reasoning']));
  const calls = part['tool_calls'];
  return Array.isArray(calls) ? text + calls.map(writtenCall).join('') : text;
}

function writtenCall(call: unknown): string {
  const called = isRecord(call) ? call['function'] : null;
  return isRecord(called) ? textOf(called['name']) + textOf(called['arguments']) : '';
}

function choicesOf(value: unknown): unknown[] | null {
  return isRecord(value) && Array.isArray(value['choices']) ? value['choices'] : null;
}

function decode(answer: unknown): ChatAnswer | null {
  const [first, ...more] = choicesOf(answer)?.filter(isRecord) ?? [];
  if (!isRecord(answer) || !first || !isRecord(first['message'])) return null;
  const finish = first['finish_reason'];
  return {
    completion: answer,
    text: textOf(first['message']['content']),
    finishReason: typeof finish === 'string' ? finish : null,
    stopSequence: null,
    usage: readUsage(answer['usage']),
    written: [first, ...more]
      .map(({ message }) => (isRecord(message) ? writtenOf(message) : ''))
      .join(''),
  };
}

/** Reads a stream of chunks. */
class OpenaiReader implements StreamReader {
  finishReason: string | null = null;
  readonly stopSequence = null;
  head: StreamReader['head'] = { id: '', created: 0, model: '' };
  #isStarted = false;
  #isDone = false;
  #usage: TokenUsage | null = null;
  /** Indexes of the choices that have begun, and that have ended. */
  readonly #begun = new Set<number>();
  readonly #ended = new Set<number>();

  get complete(): boolean {
    // Some providers do not end a stream with [DONE].
    return this.#isDone || (this.#ended.size > 0 && this.#ended.size === this.#begun.size);
  }

  get usage(): StreamReader['usage'] {
    return { ...this.#usage, final: this.#usage !== null };
  }

  read({ data }: { data: string }): StreamStep | null {
    if (data === '[DONE]') {
      this.#isDone = true;
      return null;
    }
    const value = parseObject(data);
    if (value['error']) {
      throw upstreamRefused(500, { ...reportOf(value), retryAfter: undefined });
    }
    this.#usage = readUsage(value['usage']) ?? this.#usage;
    if (!this.#isStarted) {
      const { id, created, model } = value;
      this.head = { id: textOf(id), created: tokenCount(created) ?? 0, model: textOf(model) };
      this.#isStarted = true;
    }
    const choices = choicesOf(value);
    if (!choices) return null;
    // The gateway sends the usage itself, to callers that request it.
    const { usage: reported, ...rest } = value;
    return reported && choices.length === 0 ? null : this.#step(reported ? rest : value, choices);
  }

  #step(chunk: Record<string, unknown>, choices: readonly unknown[]): StreamStep {
    const step = { chunk, text: '', written: '' };
    for (const choice of choices.filter(isRecord)) {
      const { delta, finish_reason: finish } = choice;
      const index = tokenCount(choice['index']) ?? 0;
      this.#begun.add(index);
      if (typeof finish === 'string') {
        this.#ended.add(index);
        if (index === 0) this.finishReason = finish;
      }
      if (!isRecord(delta)) continue;
      step.written += writtenOf(delta);
      if (index === 0) step.text += textOf(delta['content']);
    }
    return step;
  }
}
