/** Prices of chats in micro-credits, rounded up once (docs/chat.md). */
import { chatPriceFor, type ChatModel } from '../catalog/chat-model.ts';
import { microFromCredits } from '../domain/credits.ts';
import type { InputCount } from './input-count.ts';

/** Tokens of a chat. */
export interface TokenUsage {
  inputTokens: number;
  /** Audio tokens among the input tokens. */
  audioInputTokens?: number;
  /**
   * Input tokens that were read from the provider's cache of prompts, and that were written to it.
   */
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  outputTokens: number;
  /** Reasoning tokens among the output tokens. */
  reasoningTokens?: number;
}

/** Usage that a provider has reported so far; `final` if it covers the whole answer. */
export type ReportedUsage = Partial<TokenUsage> & { final: boolean };

/** Calculates the price of tokens in micro-credits. */
export function chatPriceMicro(model: ChatModel, usage: TokenUsage, usdPerCredit: number): number {
  const price = chatPriceFor(model.cost, usage.inputTokens);
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

/** Tokens of a request before it is sent. */
export interface ChatTokens {
  /** Input tokens that the gateway itself has counted, and the audio tokens among them. */
  input: number;
  audioInput: number;
  /**
   * Input tokens that may be written to the provider's cache: all of them if the request enables
   * the cache, otherwise none.
   */
  cacheWrite: number;
  /** Expected number and highest number of output tokens of all answers together. */
  outputExpected: number;
  outputMax: number;
  /** Output tokens without which the chat is rejected. */
  outputMin: number;
  answers: number;
}

/** Output tokens of an answer without `max_tokens`, if the balance cannot pay for more. */
const outputTokensLeast = 16;

/**
 * Calculates the tokens of a request. Without `max_tokens` an answer is as long as the model and
 * the balance allow, so only an expected length is reserved.
 */
export function tokensOf(
  { limit }: ChatModel,
  request: { input: InputCount; maxTokens: number | null; answers: number },
  answerTokensExpected: number,
): ChatTokens {
  const { answers, maxTokens } = request;
  const input = Math.min(request.input.tokens, limit.context);
  // Input and answers share the context of many models.
  const room = Math.max(limit.context - input, Math.min(limit.output, 1024));
  const answerMax = Math.min(limit.output, maxTokens ?? room);
  const expected = Math.min(answerMax, answerTokensExpected);
  const least = maxTokens === null ? Math.min(outputTokensLeast, expected) : expected;
  return {
    input,
    audioInput: Math.min(request.input.audioTokens, input),
    cacheWrite: request.input.writesCache ? input : 0,
    outputExpected: expected * answers,
    outputMax: answerMax * answers,
    outputMin: least * answers,
    answers,
  };
}

/** Returns the expected usage of a request with this many output tokens. */
export function expectedUsage(tokens: ChatTokens, outputTokens: number): TokenUsage {
  const { input: inputTokens, audioInput: audioInputTokens, cacheWrite } = tokens;
  return {
    inputTokens,
    audioInputTokens,
    cacheWriteTokens: Math.min(cacheWrite, inputTokens - audioInputTokens),
    outputTokens,
  };
}

/**
 * Calculates the highest number of tokens of each answer with which the whole chat costs at most
 * `payableMicro`.
 */
export function affordableAnswer(
  model: ChatModel,
  { tokens, payableMicro }: { tokens: ChatTokens; payableMicro: number },
  usdPerCredit: number,
): number {
  const inputMicro = chatPriceMicro(model, expectedUsage(tokens, 0), usdPerCredit);
  const tokenMicro = chatPriceFor(model.cost, tokens.input).outputUsdPerMillion / usdPerCredit;
  const affordable =
    tokenMicro > 0 ? Math.floor((payableMicro - inputMicro) / tokenMicro) : Infinity;
  const output = Math.max(tokens.outputMin, Math.min(affordable, tokens.outputMax));
  return Math.floor(output / tokens.answers);
}
