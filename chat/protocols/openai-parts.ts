/** Parses choices, output text, usage and error reports of OpenAI's chat completions. */
import { z } from 'zod';
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import type { TokenUsage } from '../chat-price.ts';
import { parseTokenCount } from './protocol.ts';

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

/** Parses the error that a provider reports; texts that it does not report are empty. */
export function parseErrorReport(body: unknown): { message: string; code: string; param: string } {
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
export function parseOpenaiUsage(value: unknown): TokenUsage | null {
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

/** Joins all output in a message or a delta: text, `refusal`, visible reasoning and tool calls. */
export function joinOutput(part: Record<string, unknown>): string {
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
 * `delta`). Null if there is no list of choices. Each entry of `reasoning_details` names the
 * provider.
 */
export function readChoices(
  { choices }: Record<string, unknown>,
  field: 'message' | 'delta',
  provider: string,
): Record<string, unknown>[] | null {
  if (!Array.isArray(choices)) return null;
  return choices.filter(isRecord).map((choice) => {
    const part = choice[field];
    if (!isRecord(part)) return choice;
    const { content, reasoning_details: details } = part;
    if (!Array.isArray(content) && !Array.isArray(details)) return choice;
    const named = Array.isArray(details) && {
      reasoning_details: details.filter(isRecord).map((detail) => ({ ...detail, provider })),
    };
    const converted = Array.isArray(content) ? convertContentList(part) : part;
    return { ...choice, [field]: { ...converted, ...named } };
  });
}

/** Converts a content list (`thinking` and `text` parts of Mistral's reasoning models) to text. */
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
