/**
 * Calculates the tokens for which a chat is charged: the provider's counts, each limited to the
 * maximum that the request allows, and the gateway's own counts where the provider reports none
 * (docs/chat.md).
 */
import { selectChatPrice, type ChatModel, type PricedModel } from './models.ts';
import { priceTokens } from '../domain/book-price.ts';
import { microFromCredits } from '../domain/credits.ts';
import type { InputCount } from './input-count.ts';
import type { ChatCandidate, EncodedRequest } from './candidates.ts';

/** Tokens that a chat used. */
export interface TokenUsage {
  inputTokens: number;
  /** Audio tokens among the input tokens. */
  audioInputTokens?: number;
  /** Input tokens that were read from the provider's prompt cache. */
  cachedInputTokens?: number;
  /** Input tokens that were written to the provider's prompt cache. */
  cacheWriteTokens?: number;
  outputTokens: number;
  /** Reasoning tokens among the output tokens. */
  reasoningTokens?: number;
}

/** Usage that a provider has reported so far. `final` is true if it covers the whole answer. */
export type ReportedUsage = Partial<TokenUsage> & { final: boolean };

/** Calculates the price of tokens in micro-credits (domain/book-price.ts). */
export function calculateChatPrice(
  model: PricedModel,
  usage: TokenUsage,
  usdPerCredit: number,
): number {
  return priceTokens(calculateChatCost(model, usage, usdPerCredit), usage, model.book);
}

/** Calculates the price of tokens in the catalog, in micro-credits. */
export function calculateChatCost(
  model: ChatModel,
  usage: TokenUsage,
  usdPerCredit: number,
): number {
  const price = selectChatPrice(model.cost, usage.inputTokens);
  const { inputTokens, audioInputTokens = 0, outputTokens } = usage;
  const { cachedInputTokens = 0, cacheWriteTokens = 0 } = usage;
  const plainTokens = inputTokens - audioInputTokens - cachedInputTokens - cacheWriteTokens;
  const usd =
    (plainTokens * price.inputUsdPerMillion +
      audioInputTokens * price.audioInputUsdPerMillion +
      cachedInputTokens * price.cachedInputUsdPerMillion +
      cacheWriteTokens * price.cacheWriteUsdPerMillion +
      outputTokens * price.outputUsdPerMillion) /
    1_000_000;
  return microFromCredits(usd / usdPerCredit);
}

/** Estimated tokens of a request before it is sent. */
export interface ChatTokens {
  /** Input tokens as estimated by the gateway. */
  input: number;
  /** Audio tokens among the input tokens. */
  audioInput: number;
  /** Input tokens that may be written to the prompt cache; 0 if the request does not enable it. */
  cacheWrite: number;
  /** Expected output tokens of all answers together. */
  outputExpected: number;
  /** Maximum output tokens of all answers together. */
  outputMax: number;
  /** Minimum output tokens that the balance must cover; otherwise the chat is rejected. */
  outputMin: number;
  answers: number;
}

/**
 * Numbers by which the free credits are divided: a chat reserves at most that part of them. With
 * `max_tokens` it may take half, because the caller asks for that length. Without, nearly all
 * answers are much shorter than the model's limit, so it takes an eighth: with 1,000 credits, 26
 * chats of claude-opus-5 run at once, and the first answer may have 49,000 tokens.
 */
export const freeDivisor = { requested: 2, unlimited: 8 };

/** Minimum output tokens that the balance must cover for a request without `max_tokens`. */
const outputTokensMin = 16;

/**
 * Estimates the tokens of a request. An answer without `max_tokens` may be as long as the model and
 * the balance allow.
 */
export function estimateTokens(
  model: ChatModel,
  request: { input: InputCount; maxTokens: number | null; answers: number },
  answerTokensExpected: number,
): ChatTokens {
  const { limit } = model;
  const { answers, maxTokens } = request;
  const inputTokens = Math.min(request.input.tokens, getInputTokensMax(model, answers));
  // The context of many models contains both the input and the answer.
  const answerRoom = Math.max(limit.context - inputTokens, Math.min(limit.output, 1024));
  const answerMax = Math.min(limit.output, maxTokens ?? answerRoom);
  const expected = Math.min(answerMax, answerTokensExpected);
  const shortest = maxTokens === null ? Math.min(outputTokensMin, expected) : expected;
  return {
    input: inputTokens,
    audioInput: Math.min(request.input.audioTokens, inputTokens),
    cacheWrite: request.input.writesCache ? inputTokens : 0,
    outputExpected: expected * answers,
    outputMax: answerMax * answers,
    outputMin: shortest * answers,
    answers,
  };
}

/** Returns the maximum input tokens of a request. Each input to embed may fill the context. */
export function getInputTokensMax({ limit, embedding }: ChatModel, answers: number): number {
  return limit.context * (embedding ? answers : 1);
}

/** Returns the expected usage of a request whose answer has this many output tokens. */
export function buildExpectedUsage(tokens: ChatTokens, outputTokens: number): TokenUsage {
  const { input: inputTokens, audioInput: audioInputTokens, cacheWrite } = tokens;
  return {
    inputTokens,
    audioInputTokens,
    cacheWriteTokens: Math.min(cacheWrite, inputTokens - audioInputTokens),
    outputTokens,
  };
}

/** Calculates the most tokens of each answer for which `reservedMicro` pays. */
export function calculateAnswerLimit(
  model: PricedModel,
  { tokens, reservedMicro }: { tokens: ChatTokens; reservedMicro: number },
  usdPerCredit: number,
): number {
  const calculatePrice = (outputTokens: number): number =>
    calculateChatPrice(model, buildExpectedUsage(tokens, outputTokens), usdPerCredit);
  if (calculatePrice(tokens.outputMax) <= reservedMicro) {
    return Math.floor(tokens.outputMax / tokens.answers);
  }
  // The most output tokens that are paid are between the two.
  let [paid, unpaid] = [0, tokens.outputMax];
  while (unpaid - paid > 1) {
    const middle = Math.floor((paid + unpaid) / 2);
    if (calculatePrice(middle) <= reservedMicro) paid = middle;
    else unpaid = middle;
  }
  return Math.floor(Math.max(tokens.outputMin, paid) / tokens.answers);
}

/** Way in which a chat ended. */
export type ChatEnd =
  /** The answer is complete. */
  | 'complete'
  /** The provider ended its stream before the answer was complete. */
  | 'broken'
  /** The caller disconnected, or stopped reading. */
  | 'left'
  /** No answer can be returned: the provider failed, or its answer was unusable. */
  | 'failed';

/** Data from which the charged tokens of a chat are calculated. */
export interface ChatCounts {
  candidate: ChatCandidate;
  /** Request to the model; null before the first call. */
  request: EncodedRequest | null;
  /**
   * True if the request was sent and the provider has not responded with an error status, so that
   * it may bill the input.
   */
  mayBeBilled: boolean;
  /** True if any output of the model was sent to the caller. */
  hasDelivered: boolean;
  reported: ReportedUsage;
  /** Output tokens as counted by the gateway. */
  outputTokens: number;
}

/** Tokens to charge, and whether the provider or the gateway counted them. */
export interface Billing extends TokenUsage {
  to: 'charged' | 'released';
  countedBy: 'provider' | 'gateway' | null;
}

const released: Billing = { to: 'released', inputTokens: 0, outputTokens: 0, countedBy: null };

/**
 * Calculates the tokens to charge. The rule depends on the end of the chat:
 * - `failed`: none
 * - `broken`: none if no output was delivered; otherwise the same tokens as for `complete`
 * - `left`: none if the request was not sent, or the provider responded with an error status.
 *   Otherwise the same tokens as for `complete`, because the provider bills the input.
 * - `complete`: the tokens of `calculateUsage`
 */
export function calculateBilling(end: ChatEnd, counts: ChatCounts): Billing {
  const { mayBeBilled, hasDelivered, reported } = counts;
  if (end === 'failed' || (end === 'broken' && !hasDelivered) || (end === 'left' && !mayBeBilled)) {
    return released;
  }
  const { final, inputTokens, outputTokens } = reported;
  const isReported = final && inputTokens !== undefined && outputTokens !== undefined;
  return {
    to: 'charged',
    ...calculateUsage(counts),
    countedBy: isReported ? 'provider' : 'gateway',
  };
}

/** Returns whether the provider reported more tokens than the request can have. */
export function exceedsMaximum({ reported, request }: ChatCounts): boolean {
  const { inputTokens = 0, cachedInputTokens = 0, outputTokens = 0 } = reported;
  if (!request) return false;
  const { usageMax } = request;
  return (
    inputTokens > usageMax.inputTokens ||
    cachedInputTokens > Math.min(reported.inputTokens ?? Infinity, usageMax.inputTokens) ||
    outputTokens > usageMax.outputTokens
  );
}

/**
 * Returns the tokens to charge if the chat ended now. Each number that the provider's final report
 * contains counts as reported, even if it is zero. Before that, the reported input counts if it is
 * not zero, and the reported output if it is more than the gateway's count. Where nothing was
 * reported, the gateway's estimate of the input and its count of the delivered output apply. No
 * number exceeds its maximum: that of the request, and for a part of the input or the output, the
 * rest of the whole.
 */
export function calculateUsage(counts: ChatCounts): TokenUsage {
  const { candidate, request, reported } = counts;
  const { final, cachedInputTokens = 0, cacheWriteTokens = 0, reasoningTokens = 0 } = reported;
  const inputTokens = countInput(counts);
  const counted = final
    ? (reported.outputTokens ?? counts.outputTokens)
    : Math.max(reported.outputTokens ?? 0, counts.outputTokens);
  const outputTokens = Math.min(counted, request?.usageMax.outputTokens ?? 0);
  const cached = Math.min(cachedInputTokens, inputTokens);
  // If the request enables no prompt cache, reported cache writes are billed as plain input.
  const writeMax = Math.min(request?.usageMax.cacheWriteTokens ?? 0, inputTokens - cached);
  const written = Math.min(cacheWriteTokens, writeMax);
  const reasoning = final ? Math.min(reasoningTokens, outputTokens) : 0;
  const { input, audioInput } = candidate.tokens;
  // If no audio tokens are reported, all input beyond the estimated text is priced as audio.
  const audio = reported.audioInputTokens ?? Math.max(0, inputTokens - (input - audioInput));
  return {
    inputTokens,
    ...(audioInput > 0 && { audioInputTokens: Math.min(audio, inputTokens - cached - written) }),
    ...(cached > 0 && { cachedInputTokens: cached }),
    ...(written > 0 && { cacheWriteTokens: written }),
    outputTokens,
    ...(reasoning > 0 && { reasoningTokens: reasoning }),
  };
}

function countInput({ candidate, request, reported }: ChatCounts): number {
  const { final, inputTokens } = reported;
  if (inputTokens === undefined || (inputTokens === 0 && !final)) return candidate.tokens.input;
  return Math.min(inputTokens, request?.usageMax.inputTokens ?? 0);
}
