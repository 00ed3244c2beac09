/** Reads the stream of an answer in OpenAI's chat completions. */
import { asRecord, asText } from '../../domain/json.ts';
import { errorFromReport } from '../upstream-failures.ts';
import { joinOutput, parseErrorReport, parseOpenaiUsage, readChoices } from './openai-parts.ts';
import { parseObject, parseTokenCount, type StreamReader, type StreamStep } from './protocol.ts';

/** Parser of one stream of chat completion chunks. */
export class OpenaiReader implements StreamReader {
  finishReason: string | null = null;
  readonly stopSequence = null;
  usage: StreamReader['usage'] = { final: false };
  head: StreamReader['head'] = { id: '', created: 0, model: '' };
  #isStarted = false;
  #isDone = false;
  readonly #answerCount: number;
  readonly #provider: string;
  /** Indexes of the choices that have ended. */
  readonly #endedChoices = new Set<number>();

  constructor({ answers, provider }: { answers: number; provider: string }) {
    this.#answerCount = answers;
    this.#provider = provider;
  }

  get complete(): boolean {
    // Some providers do not send [DONE].
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
    const usage = parseOpenaiUsage(value['usage']);
    if (usage) this.usage = { ...usage, final: true };
    if (!this.#isStarted) {
      const { id, created, model } = value;
      this.head = { id: asText(id), created: parseTokenCount(created) ?? 0, model: asText(model) };
      this.#isStarted = true;
    }
    const choices = readChoices(value, 'delta', this.#provider);
    // Callers that request usage receive the gateway's instead of the provider's.
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
