/**
 * Calculates the tokens for which a chat is charged: the provider's counts if they are plausible,
 * otherwise the gateway's own counts (docs/chat.md).
 */
import type { ChatCandidate, EncodedRequest } from './chat-candidates.ts';
import { calculateChatPrice, type ReportedUsage, type TokenUsage } from './chat-price.ts';

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
  /** True if the provider responded with a success status. */
  isAccepted: boolean;
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
 * - `left`: none if the provider had not yet responded with a success status. Otherwise the same
 *   tokens as for `complete`, because the provider bills the input once it has responded.
 * - `complete`: the tokens of `getUsageToCharge`
 */
export function calculateBilling(end: ChatEnd, counts: ChatCounts): Billing {
  const { isAccepted, hasDelivered } = counts;
  if (end === 'failed' || (end === 'broken' && !hasDelivered) || (end === 'left' && !isAccepted)) {
    return released;
  }
  const { final, ...reported } = getPlausibleUsage(counts);
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = reported;
  return {
    to: 'charged',
    ...getUsageToCharge(counts),
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(final && reasoningTokens && { reasoningTokens }),
    countedBy: final ? 'provider' : 'gateway',
  };
}

/** Returns whether the reported usage is at most the maximum usage that the request allows. */
export function isPlausible({ reported, request }: ChatCounts): boolean {
  const { inputTokens = 0, outputTokens = 0 } = reported;
  if (!request) return true;
  return (
    inputTokens <= request.usageMax.inputTokens && outputTokens <= request.usageMax.outputTokens
  );
}

/** Returns the usage that the provider reported, or no usage if the report is not plausible. */
export function getPlausibleUsage(counts: ChatCounts): ReportedUsage {
  const { reported, request } = counts;
  if (!isPlausible(counts)) return { final: false };
  const { inputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  // If the request enables no prompt cache, reported cache writes are billed as plain input.
  const writeMax = request?.usageMax.cacheWriteTokens ?? 0;
  return {
    ...reported,
    cachedInputTokens: Math.min(cachedInputTokens, inputTokens),
    cacheWriteTokens: Math.min(cacheWriteTokens, writeMax),
  };
}

/**
 * Returns the tokens to charge if the chat ended now: those of the provider's final report, even if
 * they are zero. Without one: the reported input (or the gateway's estimate if none was reported),
 * and the gateway's count of the delivered output.
 */
export function getUsageToCharge(counts: ChatCounts): TokenUsage {
  const { candidate, request, outputTokens } = counts;
  const reported = getPlausibleUsage(counts);
  const { inputTokens = 0, outputTokens: reportedOutput = 0 } = reported;
  if (reported.final) return { inputTokens, outputTokens: reportedOutput };
  return {
    inputTokens: inputTokens || candidate.tokens.input,
    outputTokens: Math.min(outputTokens, request?.usageMax.outputTokens ?? 0),
  };
}

/** Calculates the price of tokens in micro-credits, with the reported counts of cached tokens. */
export function calculateUsagePrice(
  counts: ChatCounts,
  { inputTokens, outputTokens }: TokenUsage,
  usdPerCredit: number,
): number {
  const { model, tokens } = counts.candidate;
  const reported = getPlausibleUsage(counts);
  const { cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  const uncachedTokens = inputTokens - cachedInputTokens - cacheWriteTokens;
  // If no audio tokens are reported, all input beyond the estimated text is priced as audio.
  const audioTokens = reported.audioInputTokens ?? inputTokens - (tokens.input - tokens.audioInput);
  const audioInputTokens =
    tokens.audioInput > 0 ? Math.min(Math.max(0, audioTokens), uncachedTokens) : 0;
  const input = { inputTokens, audioInputTokens, cachedInputTokens, cacheWriteTokens };
  return calculateChatPrice(model, { ...input, outputTokens }, usdPerCredit);
}
