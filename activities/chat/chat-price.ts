/**
 * What a chat costs: tokens counted without a tokenizer (docs/chat.md has the reasoning), their price in
 * micro-credits, rounded up once, the least and the most to reserve, and who pays at the end.
 */
import type { ChatBody, ContentPart } from './chat-body.ts';
import { chatPriceFor, type ChatModel } from '../../catalog/chat-model.ts';
import { microFromCredits } from '../../domain/credits.ts';

/** Tokens of an input. */
export interface InputCount {
  /** Never less than any tokenizer of the catalog counts; infinite where the bytes do not say. */
  bound: number;
  estimate: number;
  /** False with pictures and documents: only the provider knows what they count. */
  certain: boolean;
}

/** Role, separators and the like of one message. */
const messageTokens = 8;
/** A picture: most providers count 85–1,600; a few count far more, any size when asked for `original`. */
const imageTokens = { bound: 4000, estimate: 800 };
/** Base64 characters per token: 32 tokens/s of 16 kHz PCM; a document may unpack to any length. */
const base64PerToken = { sound: 8, estimate: 64 };

/** Counts text as it comes. About four ASCII characters, or one character of CJK, are a token. */
export class TextMeter {
  #units = 0;
  /** Bytes that UTF-8 needs beyond one per UTF-16 unit: none for ASCII, two per CJK character. */
  #extraBytes = 0;

  add(text: string): void {
    this.#units += text.length;
    this.#extraBytes += Buffer.byteLength(text) - text.length;
  }

  /** A byte-level tokenizer never needs more tokens than there are bytes. */
  get bytes(): number {
    return this.#units + this.#extraBytes;
  }

  /** The estimate, rounded up: some text is at least one token. */
  get tokens(): number {
    const foreign = this.#extraBytes / 2;
    return Math.ceil(Math.max(0, this.#units - foreign) / 4 + foreign);
  }
}

/** Counts the input of a request: every text in every field, so that no field can be sent to a provider uncounted. */
export function countInput(body: ChatBody): InputCount {
  const meter = new TextMeter();
  const media: InputCount = { bound: 0, estimate: 0, certain: true };
  const { messages, ...others } = body;
  for (const { role: _, content, ...fields } of messages) {
    if (typeof content === 'string') meter.add(content);
    else for (const part of content ?? []) countPart(part, meter, media);
    countFields(fields, meter);
  }
  const input = Object.entries(others).filter(([name]) => !identifiers.has(name));
  countFields(Object.fromEntries(input), meter);
  const frame = messages.length * messageTokens;
  // Providers put a preamble of their own before tools.
  const preamble = body.tools ? 600 : 0;
  return {
    bound: meter.bytes + media.bound + frame + preamble,
    estimate: meter.tokens + media.estimate + messages.length * 4,
    certain: media.certain,
  };
}

/** Fields that providers never give to a model. Every other field counts as input, known or not. */
const identifiers: ReadonlySet<string> = new Set([
  'user',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
]);

/** Counts the texts of fields; numbers and flags are parameters of the provider, not input. */
function countFields(fields: object, meter: TextMeter): void {
  for (const value of Object.values(fields)) {
    if (typeof value === 'string') meter.add(value);
    else if (typeof value === 'object' && value !== null) meter.add(JSON.stringify(value));
  }
}

function countPart(part: ContentPart, meter: TextMeter, media: InputCount): void {
  switch (part.type) {
    case 'text':
    case 'refusal': {
      const { type: _, ...fields } = part;
      return countFields(fields, meter);
    }
    case 'image_url':
      media.bound += part.image_url.detail === 'original' ? Infinity : imageTokens.bound;
      media.certain = false;
      media.estimate += imageTokens.estimate;
      return undefined;
    case 'input_audio':
      media.bound += Math.ceil(part.input_audio.data.length / base64PerToken.sound);
      media.estimate += Math.ceil(part.input_audio.data.length / base64PerToken.estimate);
      return undefined;
    case 'file':
      media.bound = Infinity;
      media.certain = false;
      media.estimate += Math.ceil(part.file.file_data.length / base64PerToken.estimate);
      meter.add(part.file.filename ?? '');
      return undefined;
  }
}

/** Tokens that are paid for. */
export interface TokenUsage {
  inputTokens: number;
  outputTokens: number;
}

/** Micro-credits of this many tokens. */
export function chatPriceMicro(model: ChatModel, usage: TokenUsage, usdPerCredit: number): number {
  const price = chatPriceFor(model.cost, usage.inputTokens);
  const usd =
    (usage.inputTokens * price.inputUsdPerMillion +
      usage.outputTokens * price.outputUsdPerMillion) /
    1_000_000;
  return microFromCredits(usd / usdPerCredit);
}

/** What a request may cost. */
export interface ChatBounds {
  inputTokens: number;
  /** Tokens of one answer. */
  outputTokensMin: number;
  outputTokensMax: number;
  answers: number;
  amountMinMicro: number;
  amountMaxMicro: number;
}

/** A caller who does not bound the answer gets the longest affordable one, but never a shorter one. */
const outputTokensLeast = 16;

/**
 * The least and the most to reserve. A caller's own bound is reserved in full; without one the bound
 * is the model's, and shrinks to what the balance can pay.
 */
export function boundsOf(
  model: ChatModel,
  wanted: { input: InputCount; maxTokens: number | null; answers: number },
  usdPerCredit: number,
): ChatBounds {
  const { context, output } = model.limit;
  // A provider refuses an input beyond its context, so no more than that is ever paid for.
  const inputTokens = Math.min(wanted.input.bound, context);
  // Input and answer share the context of many models: leave room, unless the estimate is far off.
  const taken = wanted.input.bound === Infinity ? wanted.input.estimate : inputTokens;
  const roomy = Math.max(context - taken, Math.min(output, 1024));
  const outputTokensMax = Math.min(output, wanted.maxTokens ?? roomy);
  const outputTokensMin =
    wanted.maxTokens === null ? Math.min(outputTokensLeast, outputTokensMax) : outputTokensMax;
  const amount = (outputTokens: number): number =>
    chatPriceMicro(
      model,
      { inputTokens, outputTokens: outputTokens * wanted.answers },
      usdPerCredit,
    );
  const amountMaxMicro = amount(outputTokensMax);
  return {
    inputTokens,
    outputTokensMin,
    outputTokensMax,
    answers: wanted.answers,
    amountMinMicro: outputTokensMin === outputTokensMax ? amountMaxMicro : amount(outputTokensMin),
    amountMaxMicro,
  };
}

/** Tokens that each answer may have once this much is reserved. */
export function affordableOutput(
  model: ChatModel,
  granted: { bounds: ChatBounds; amountMicro: number },
  usdPerCredit: number,
): number {
  const { bounds, amountMicro } = granted;
  if (amountMicro >= bounds.amountMaxMicro) return bounds.outputTokensMax;
  const price = chatPriceFor(model.cost, bounds.inputTokens);
  const input = (bounds.inputTokens * price.inputUsdPerMillion) / usdPerCredit;
  const perToken = (price.outputUsdPerMillion / usdPerCredit) * bounds.answers;
  const tokens = Math.floor((amountMicro - input) / perToken);
  return Math.max(bounds.outputTokensMin, Math.min(tokens, bounds.outputTokensMax));
}

/** How a chat ended. */
export type ChatEnd =
  /** The upstream said that it is through. */
  | 'complete'
  /** The upstream broke off. */
  | 'broken'
  /** The caller went away, or stopped reading. */
  | 'left'
  /** There was no answer. */
  | 'refused';

/** What is known of a chat that has ended. */
export interface ChatAccount {
  end: ChatEnd;
  /** Whether the caller was sent anything that the model wrote. */
  delivered: boolean;
  /** The provider's word; `final` when it covers the whole answer. */
  said: { inputTokens?: number; outputTokens?: number; final: boolean };
  /** Our own count: an estimate of the input, and what was relayed. */
  counted: TokenUsage;
}

/** What is charged. */
export interface Billing extends TokenUsage {
  to: 'charged' | 'released';
  countedBy: 'provider' | 'gateway' | null;
}

const released: Billing = { to: 'released', inputTokens: 0, outputTokens: 0, countedBy: null };

/**
 * The provider's final word counts, zero included. Without one, our count of what was relayed does, with
 * the provider's count of the input where it came first. Who got nothing pays nothing, unless he left
 * when the provider had said already what it counted.
 */
export function billOf({ end, delivered, said, counted }: ChatAccount): Billing {
  const { inputTokens, outputTokens } = said;
  if (end === 'left' && !delivered && inputTokens !== undefined) {
    const output = outputTokens ?? 0;
    return { to: 'charged', inputTokens, outputTokens: output, countedBy: 'provider' };
  }
  if (end === 'refused' || (end !== 'complete' && !delivered)) return released;
  if (said.final && inputTokens !== undefined && outputTokens !== undefined) {
    return { to: 'charged', inputTokens, outputTokens, countedBy: 'provider' };
  }
  return {
    to: 'charged',
    inputTokens: inputTokens ?? counted.inputTokens,
    outputTokens: counted.outputTokens,
    countedBy: 'gateway',
  };
}

/**
 * Whether the caller left before the provider said what it counts, and pays nothing for it, or, where
 * only the provider can count the input, a guess.
 */
export function isAbandoned(
  { end, delivered, said }: ChatAccount,
  { certain }: { certain: boolean },
): boolean {
  return end === 'left' && said.inputTokens === undefined && !(delivered && certain);
}
