/**
 * Parses answers in the format of OpenAI's chat completions, streamed and whole. Providers differ in
 * what they add, omit and repeat.
 */
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import type { ReportedUsage, TokenUsage } from '../bill.ts';
import { errorFromEvent } from '../upstream-failures.ts';
import {
  parseReport,
  parseTokenCount,
  type AnswerReader,
  type ExpectedResponse,
  type StreamEvent,
  type StreamStep,
} from './protocol.ts';
import { joinOutput, StreamedChoice, type Delta } from './streamed-choice.ts';

type Fields = Record<string, unknown>;

/** Choice of the answer, with the last chunk and the last entry of `choices` that contained it. */
interface ReadChoice {
  index: number;
  streamed: StreamedChoice;
  hasOutput: boolean;
  chunk: Fields;
  entry: Fields;
}

/** Parser of one answer. */
export class OpenaiReader implements AnswerReader {
  isEnded = false;
  readonly stopSequence = null;
  usage: ReportedUsage = { final: false };
  head: AnswerReader['head'] = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  readonly #response: ExpectedResponse;
  readonly #choices = new Map<number, ReadChoice>();
  #reportedUsage: Fields = {};

  constructor(response: ExpectedResponse) {
    this.#response = response;
  }

  get complete(): boolean {
    const choices = [...this.#choices.values()];
    const finished = choices.filter(({ streamed }) => streamed.isFinished).length;
    if (!this.isEnded) return finished >= this.#response.answers;
    return finished > 0 || choices.some(({ hasOutput }) => hasOutput);
  }

  get finishReason(): string | null {
    return this.#choices.get(0)?.streamed.finishReason ?? null;
  }

  read({ event, data }: StreamEvent): StreamStep[] {
    if (this.isEnded) return [];
    if (/^\s*"?\[DONE\]"?\s*$/i.test(data)) {
      this.isEnded = true;
      return [];
    }
    const value = parseReport(data, event);
    if (!value) return [];
    const choices = Array.isArray(value['choices']) ? value['choices'].filter(isRecord) : [];
    const { usage, id, created, model } = value;
    if (this.head.id === '') {
      const start = parseTokenCount(Math.floor(Number(created))) ?? 0;
      this.head = {
        id: asText(id),
        created: start || this.head.created,
        model: asText(model) || this.head.model,
      };
    }
    const hasUsage = this.#readUsage(
      usage ?? choices[0]?.['usage'] ?? asRecord(value['x_groq'])['usage'],
    );
    const steps: StreamStep[] = [];
    for (const entry of choices) this.#readChoice(entry, { chunk: value, hasUsage, steps });
    return steps;
  }

  readDocument(text: string): StreamStep[] {
    const steps = this.read({ data: text });
    this.isEnded = true;
    return steps;
  }

  end(): StreamStep[] {
    return [...this.#choices.values()].flatMap((choice) => {
      choice.entry['logprobs'] = null;
      const deltas = choice.streamed.end();
      const { finishReason } = choice.streamed;
      return [
        ...deltas.map((delta) => this.#buildStep(choice, delta)),
        this.#buildStep(choice, {}, finishReason),
      ];
    });
  }

  #readUsage(usage: unknown): boolean {
    if (!isRecord(usage)) return false;
    const counts = Object.entries(usage).filter(([, count]) => count !== null);
    // Some providers report the counts of input and output in different chunks.
    this.#reportedUsage = { ...this.#reportedUsage, ...Object.fromEntries(counts) };
    const parsed = parseOpenaiUsage(this.#reportedUsage);
    if (parsed) this.usage = { ...parsed, final: true };
    return parsed !== null;
  }

  #readChoice(
    entry: Fields,
    { chunk, hasUsage, steps }: { chunk: Fields; hasUsage: boolean; steps: StreamStep[] },
  ): void {
    if (entry['error']) throw errorFromEvent(entry);
    const index = parseTokenCount(entry['index']) ?? 0;
    const { delta, message, finish_reason: reason } = entry;
    const choice = this.#findChoice(index);
    choice.chunk = chunk;
    choice.entry = entry;
    // A whole message is the answer, unless its text was already streamed.
    const whole = choice.hasOutput ? {} : asRecord(message);
    const fields = isRecord(delta) ? delta : whole;
    normalizeDelta(fields);
    const output = joinOutput(fields);
    if (output !== '') choice.hasOutput = true;
    // The usage that was reported earlier does not include the output in this chunk.
    if (output !== '' && !hasUsage) this.usage.final = false;
    const deltas = choice.streamed.add(fields);
    choice.streamed.finish(reason);
    for (const part of deltas) {
      steps.push(this.#buildStep(choice, part));
      entry['logprobs'] = null;
    }
  }

  #findChoice(index: number): ReadChoice {
    const known = this.#choices.get(index);
    if (known) return known;
    const streamed = new StreamedChoice(this.#response);
    const choice = { index, streamed, hasOutput: false, chunk: {}, entry: {} };
    this.#choices.set(index, choice);
    return choice;
  }

  #buildStep(
    { index, chunk, entry }: ReadChoice,
    delta: Delta,
    reason: string | null = null,
  ): StreamStep {
    return {
      chunk: {
        ...chunk,
        usage: undefined,
        object: 'chat.completion.chunk',
        created: this.head.created,
        choices: [{ ...entry, message: undefined, index, delta, finish_reason: reason }],
      },
      text: index === 0 ? asText(delta['content']) + asText(delta['refusal']) : '',
      outputText: joinOutput(delta),
    };
  }
}

/**
 * Parses usage in OpenAI's format; numbers that are missing or invalid stay missing. Some providers
 * count reasoning tokens only in `total_tokens`, not in `completion_tokens`, so every token that is
 * not input counts as output. Returns null if neither input nor output is reported.
 */
export function parseOpenaiUsage(usage: Fields): Partial<TokenUsage> | null {
  const inputTokens = parseTokenCount(usage['prompt_tokens']);
  const completionTokens = parseTokenCount(usage['completion_tokens']);
  if (inputTokens === undefined && completionTokens === undefined) return null;
  const totalTokens = parseTokenCount(usage['total_tokens']);
  const inputDetails = asRecord(usage['prompt_tokens_details']);
  const outputDetails = asRecord(usage['completion_tokens_details']);
  const audioTokens = parseTokenCount(inputDetails['audio_tokens']);
  const beyondInput =
    inputTokens === undefined || totalTokens === undefined ? 0 : totalTokens - inputTokens;
  const outputTokens =
    completionTokens === undefined && beyondInput <= 0
      ? undefined
      : Math.max(completionTokens ?? 0, beyondInput);
  return {
    ...(inputTokens !== undefined && { inputTokens }),
    ...(audioTokens !== undefined && { audioInputTokens: audioTokens }),
    // DeepSeek and Moonshot AI report cached tokens outside of `prompt_tokens_details`.
    cachedInputTokens:
      parseTokenCount(inputDetails['cached_tokens']) ??
      parseTokenCount(usage['prompt_cache_hit_tokens']) ??
      parseTokenCount(usage['cached_tokens']) ??
      0,
    ...(outputTokens !== undefined && { outputTokens }),
    reasoningTokens: parseTokenCount(outputDetails['reasoning_tokens']) ?? 0,
  };
}

/**
 * Converts a content list (`thinking` and `text` parts of Mistral's reasoning models) to text, and
 * reasoning under another name to `reasoning_content`, in the parsed delta itself.
 */
function normalizeDelta(delta: Delta): void {
  const { content } = delta;
  const parts = Array.isArray(content) ? content : null;
  const thoughts = parts?.flatMap((part) => {
    const { thinking } = asRecord(part);
    return Array.isArray(thinking) ? thinking : [];
  });
  const reasoning =
    (thoughts ? joinTexts(thoughts) : '') ||
    asText(delta['reasoning_content']) ||
    asText(delta['reasoning']) ||
    asText(delta['reasoning_text']) ||
    asText(delta['thinking']);
  if (parts) delta['content'] = joinTexts(parts);
  if (reasoning !== '') delta['reasoning_content'] = reasoning;
}

function joinTexts(parts: readonly unknown[]): string {
  return parts.map((part) => asText(part) || asText(asRecord(part)['text'])).join('');
}
