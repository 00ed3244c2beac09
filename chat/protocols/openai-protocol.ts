/**
 * Encodes requests for OpenAI's chat completions and decodes its answers. Most providers serve this
 * protocol under their own base URLs.
 *
 * Sources: the types of the `openai` client, the providers' API references.
 */
import { z } from 'zod';
import { errorFromReport } from '../upstream-failures.ts';
import { asRecord, isRecord, asText } from '../../domain/json.ts';
import type { TokenUsage } from '../chat-price.ts';
import { addOpenaiLimit, encodeOpenai } from './openai-request.ts';
import {
  parseObject,
  parseTokenCount,
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

/** Protocol of providers that serve OpenAI's chat completions. */
export const openaiProtocol: ChatProtocol = {
  path: '/chat/completions',
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  encode: encodeOpenai,
  withTokenLimit: addOpenaiLimit,
  decode: decodeOpenai,
  createReader: (answers) => new OpenaiReader(answers),
  toGatewayError: ({ status, body, retryAfter }) =>
    errorFromReport(status, { ...parseErrorReport(body), retryAfter }),
};

function parseErrorReport(body: unknown): { message: string; code: string; param: string } {
  const parsed = errorShape.safeParse(Array.isArray(body) ? body[0] : body);
  const error = parsed.data?.error;
  return {
    message: error?.message ?? '',
    code: String(error?.code ?? error?.type ?? ''),
    param: error?.param ?? '',
  };
}

/**
 * Parses usage in OpenAI's format. Some providers count reasoning tokens only in `total_tokens`,
 * not in `completion_tokens`, so every token that is not input counts as output.
 */
function parseUsage(value: unknown): TokenUsage | null {
  if (!isRecord(value)) return null;
  const inputTokens = parseTokenCount(value['prompt_tokens']);
  const completionTokens = parseTokenCount(value['completion_tokens']);
  if (inputTokens === undefined || completionTokens === undefined) return null;
  const totalTokens = parseTokenCount(value['total_tokens']) ?? 0;
  const inputDetails = asRecord(value['prompt_tokens_details']);
  const outputDetails = asRecord(value['completion_tokens_details']);
  const audioTokens = parseTokenCount(inputDetails['audio_tokens']);
  const outputTokens = Math.max(completionTokens, totalTokens - inputTokens);
  return {
    inputTokens,
    ...(audioTokens !== undefined && { audioInputTokens: audioTokens }),
    // DeepSeek and Moonshot AI report cached tokens outside of `prompt_tokens_details`.
    cachedInputTokens:
      parseTokenCount(inputDetails['cached_tokens']) ??
      parseTokenCount(value['prompt_cache_hit_tokens']) ??
      parseTokenCount(value['cached_tokens']) ??
      0,
    outputTokens,
    reasoningTokens: Math.min(
      parseTokenCount(outputDetails['reasoning_tokens']) ?? 0,
      outputTokens,
    ),
  };
}

/**
 * Concatenates all output of the model in a message or a delta: text, `refusal`, visible reasoning
 * and tool calls.
 */
function joinOutput(part: Record<string, unknown>): string {
  const text =
    asText(part['content']) +
    asText(part['refusal']) +
    (asText(part['reasoning_content']) || asText(part['reasoning']));
  const calls = part['tool_calls'];
  return Array.isArray(calls) ? text + calls.map(joinCallOutput).join('') : text;
}

function joinCallOutput(call: unknown): string {
  const calledFunction = asRecord(asRecord(call)['function']);
  return asText(calledFunction['name']) + asText(calledFunction['arguments']);
}

/**
 * Returns the choices of an answer (if `field` is `message`) or of a stream chunk (if `field` is
 * `delta`). Null if there is no list of choices.
 */
function readChoices(
  { choices }: Record<string, unknown>,
  field: 'message' | 'delta',
): Record<string, unknown>[] | null {
  if (!Array.isArray(choices)) return null;
  return choices.filter(isRecord).map((choice) => {
    const part = choice[field];
    const isText = !isRecord(part) || !Array.isArray(part['content']);
    return isText ? choice : { ...choice, [field]: convertContentList(part) };
  });
}

/**
 * Converts a content list to text. Mistral's reasoning models return a list of `thinking` and
 * `text` parts.
 */
function convertContentList({
  content,
  ...part
}: Record<string, unknown>): Record<string, unknown> {
  const parts = Array.isArray(content) ? content.map(asRecord) : [];
  const thoughts = parts.flatMap(({ thinking }) => (Array.isArray(thinking) ? thinking : []));
  return {
    ...part,
    content: joinTexts(parts),
    ...(thoughts.length > 0 && { reasoning_content: joinTexts(thoughts) }),
  };
}

function joinTexts(parts: unknown[]): string {
  return parts.map((part) => asText(asRecord(part)['text'])).join('');
}

function decodeOpenai(answer: unknown): ChatAnswer | null {
  const choices = readChoices(asRecord(answer), 'message') ?? [];
  const [firstChoice] = choices;
  if (!isRecord(answer) || !firstChoice || !isRecord(firstChoice['message'])) return null;
  const finishReason = firstChoice['finish_reason'];
  return {
    completion: { ...answer, choices },
    text: asText(firstChoice['message']['content']),
    finishReason: typeof finishReason === 'string' ? finishReason : null,
    stopSequence: null,
    usage: parseUsage(answer['usage']),
    outputText: choices.map(({ message }) => joinOutput(asRecord(message))).join(''),
  };
}

/** Parser of one stream of chat completion chunks. */
class OpenaiReader implements StreamReader {
  finishReason: string | null = null;
  readonly stopSequence = null;
  usage: StreamReader['usage'] = { final: false };
  head: StreamReader['head'] = { id: '', created: 0, model: '' };
  #isStarted = false;
  #isDone = false;
  readonly #answerCount: number;
  /** Indexes of the choices that have ended. */
  readonly #endedChoices = new Set<number>();

  constructor(answers: number) {
    this.#answerCount = answers;
  }

  get complete(): boolean {
    // Some providers do not send [DONE], so the answer is also complete when all choices have
    // ended.
    return this.#isDone || this.#endedChoices.size >= this.#answerCount;
  }

  read({ data }: { data: string }): StreamStep | null {
    if (data === '[DONE]') {
      this.#isDone = true;
      return null;
    }
    const value = parseObject(data);
    if (value['error']) {
      throw errorFromReport(500, { ...parseErrorReport(value), retryAfter: undefined });
    }
    const usage = parseUsage(value['usage']);
    if (usage) this.usage = { ...usage, final: true };
    if (!this.#isStarted) {
      const { id, created, model } = value;
      this.head = { id: asText(id), created: parseTokenCount(created) ?? 0, model: asText(model) };
      this.#isStarted = true;
    }
    const choices = readChoices(value, 'delta');
    // The provider's usage is removed from the chunk, because callers that request usage receive
    // the gateway's.
    const { usage: reported, ...chunk } = value;
    if (!choices || (reported && choices.length === 0)) return null;
    const step = this.#buildStep(chunk, choices);
    // The usage that was reported earlier does not include the output in this chunk.
    if (!usage && step.outputText !== '') this.usage.final = false;
    return step;
  }

  #buildStep(chunk: object, choices: readonly Record<string, unknown>[]): StreamStep {
    const step = { chunk: { ...chunk, choices }, text: '', outputText: '' };
    for (const choice of choices) {
      const { finish_reason: finishReason } = choice;
      const index = parseTokenCount(choice['index']) ?? 0;
      if (typeof finishReason === 'string') {
        this.#endedChoices.add(index);
        if (index === 0) this.finishReason = finishReason;
      }
      const delta = asRecord(choice['delta']);
      step.outputText += joinOutput(delta);
      if (index === 0) step.text += asText(delta['content']);
    }
    return step;
  }
}
