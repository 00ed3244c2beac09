/**
 * OpenAI's chat completions, which most providers serve under their own base URLs. Answers already
 * have the internal format.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { z } from 'zod';
import { upstreamRefused } from '../upstream-failures.ts';
import { isRecord } from '../../domain/json.ts';
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
  createReader: createOpenaiReader,
  failureOf: ({ status, body, retryAfter }) =>
    upstreamRefused(status, { ...wordsOf(body), retryAfter }),
};

function wordsOf(body: unknown): { message: string; code: string; param: string } {
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

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
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

function createOpenaiReader(): StreamReader {
  let done = false;
  let finishReason: string | null = null;
  const begun = new Set<number>();
  const finished = new Set<number>();
  let usage: TokenUsage | null = null;
  let head: StreamReader['head'] | null = null;

  function stepOf(chunk: Record<string, unknown>, choices: readonly unknown[]): StreamStep {
    const step = { chunk, text: '', written: '' };
    for (const choice of choices) {
      if (!isRecord(choice)) continue;
      const { delta, finish_reason: finish } = choice;
      const index = tokenCount(choice['index']) ?? 0;
      begun.add(index);
      if (typeof finish === 'string') {
        finished.add(index);
        if (index === 0) finishReason = finish;
      }
      if (!isRecord(delta)) continue;
      step.written += writtenOf(delta);
      if (index === 0) step.text += textOf(delta['content']);
    }
    return step;
  }

  function read({ data }: { data: string }): StreamStep | null {
    if (data === '[DONE]') {
      done = true;
      return null;
    }
    const value = parseObject(data);
    if (value['error']) {
      throw upstreamRefused(500, { ...wordsOf(value), retryAfter: undefined });
    }
    usage = readUsage(value['usage']) ?? usage;
    head ??= {
      id: textOf(value['id']),
      created: tokenCount(value['created']) ?? 0,
      model: textOf(value['model']),
    };
    const choices = choicesOf(value);
    if (!choices) return null;
    // The gateway sends the usage itself, to callers that request it.
    const { usage: reported, ...rest } = value;
    return reported && choices.length === 0 ? null : stepOf(reported ? rest : value, choices);
  }

  return {
    read,
    get complete() {
      // Some providers do not end a stream with [DONE].
      return done || (finished.size > 0 && finished.size === begun.size);
    },
    get finishReason() {
      return finishReason;
    },
    get usage() {
      return { ...usage, final: usage !== null };
    },
    stopSequence: null,
    get head() {
      return head ?? { id: '', created: 0, model: '' };
    },
  };
}
