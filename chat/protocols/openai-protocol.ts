/**
 * OpenAI's chat completions, which most providers serve under their own base URLs. Answers already
 * have the internal format.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { z } from 'zod';
import { upstreamRefused } from '../upstream-failures.ts';
import { fieldsOf, isRecord, textOf } from '../../domain/json.ts';
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
  createReader: (answers) => new OpenaiReader(answers),
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
  const input = fieldsOf(value['prompt_tokens_details']);
  const output = fieldsOf(value['completion_tokens_details']);
  const audio = tokenCount(input['audio_tokens']);
  const outputTokens = Math.max(completion, total - inputTokens);
  return {
    inputTokens,
    ...(audio !== undefined && { audioInputTokens: audio }),
    // DeepSeek and Moonshot AI name the cached tokens outside of the details.
    cachedInputTokens:
      tokenCount(input['cached_tokens']) ??
      tokenCount(value['prompt_cache_hit_tokens']) ??
      tokenCount(value['cached_tokens']) ??
      0,
    outputTokens,
    reasoningTokens: Math.min(tokenCount(output['reasoning_tokens']) ?? 0, outputTokens),
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
  const called = fieldsOf(fieldsOf(call)['function']);
  return textOf(called['name']) + textOf(called['arguments']);
}

/**
 * Returns the choices of an answer or a chunk, whose `field` is a message or a delta; null if there
 * is no list of choices.
 */
function choicesOf(
  { choices }: Record<string, unknown>,
  field: 'message' | 'delta',
): Record<string, unknown>[] | null {
  if (!Array.isArray(choices)) return null;
  return choices.filter(isRecord).map((choice) => {
    const part = choice[field];
    const isPlain = !isRecord(part) || !Array.isArray(part['content']);
    return isPlain ? choice : { ...choice, [field]: withPlainContent(part) };
  });
}

/**
 * Converts the content of a message or a delta to text: Mistral's reasoning models return a list of
 * `thinking` and `text` parts.
 */
function withPlainContent({ content, ...part }: Record<string, unknown>): Record<string, unknown> {
  const parts = Array.isArray(content) ? content.map(fieldsOf) : [];
  const thoughts = parts.flatMap(({ thinking }) => (Array.isArray(thinking) ? thinking : []));
  return {
    ...part,
    content: textsOf(parts),
    ...(thoughts.length > 0 && { reasoning_content: textsOf(thoughts) }),
  };
}

function textsOf(parts: unknown[]): string {
  return parts.map((part) => textOf(fieldsOf(part)['text'])).join('');
}

function decode(answer: unknown): ChatAnswer | null {
  const choices = choicesOf(fieldsOf(answer), 'message') ?? [];
  const [first] = choices;
  if (!isRecord(answer) || !first || !isRecord(first['message'])) return null;
  const finish = first['finish_reason'];
  return {
    completion: { ...answer, choices },
    text: textOf(first['message']['content']),
    finishReason: typeof finish === 'string' ? finish : null,
    stopSequence: null,
    usage: readUsage(answer['usage']),
    written: choices.map(({ message }) => writtenOf(fieldsOf(message))).join(''),
  };
}

/** Reads a stream of chunks. */
class OpenaiReader implements StreamReader {
  finishReason: string | null = null;
  readonly stopSequence = null;
  usage: StreamReader['usage'] = { final: false };
  head: StreamReader['head'] = { id: '', created: 0, model: '' };
  #isStarted = false;
  #isDone = false;
  readonly #answers: number;
  /** Indexes of the choices that have ended. */
  readonly #ended = new Set<number>();

  constructor(answers: number) {
    this.#answers = answers;
  }

  get complete(): boolean {
    // Some providers do not end a stream with [DONE].
    return this.#isDone || this.#ended.size >= this.#answers;
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
    const usage = readUsage(value['usage']);
    if (usage) this.usage = { ...usage, final: true };
    if (!this.#isStarted) {
      const { id, created, model } = value;
      this.head = { id: textOf(id), created: tokenCount(created) ?? 0, model: textOf(model) };
      this.#isStarted = true;
    }
    const choices = choicesOf(value, 'delta');
    // The gateway sends the usage itself, to callers that request it.
    const { usage: reported, ...chunk } = value;
    if (!choices || (reported && choices.length === 0)) return null;
    const step = this.#step(chunk, choices);
    // Usage that was reported before this output does not cover it.
    if (!usage && step.written !== '') this.usage.final = false;
    return step;
  }

  #step(chunk: object, choices: readonly Record<string, unknown>[]): StreamStep {
    const step = { chunk: { ...chunk, choices }, text: '', written: '' };
    for (const choice of choices) {
      const { finish_reason: finish } = choice;
      const index = tokenCount(choice['index']) ?? 0;
      if (typeof finish === 'string') {
        this.#ended.add(index);
        if (index === 0) this.finishReason = finish;
      }
      const delta = fieldsOf(choice['delta']);
      step.written += writtenOf(delta);
      if (index === 0) step.text += textOf(delta['content']);
    }
    return step;
  }
}
