/** The price of a chat: catalog USD per million tokens → micro-credits, rounded up once. */
import { chatPriceFor, type ChatModel } from '../../catalog/chat-model.ts';
import { microFromCredits } from '../../domain/credits.ts';
import type { InputCount } from './token-count.ts';

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
