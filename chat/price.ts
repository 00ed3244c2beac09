/** Calculates prices of chats in micro-credits. Each price is rounded up once (docs/chat.md). */
import { selectChatPrice, type ChatModel } from './model.ts';
import { microFromCredits } from '../domain/credits.ts';

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

/** Calculates the price of tokens in micro-credits. */
export function calculateChatPrice(
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
