/**
 * Calculates the tokens that a chat is charged for: as the provider reported them if the report is
 * plausible, otherwise as the gateway counted them (docs/chat.md).
 */
import type { ChatCandidate, EncodedRequest } from './chat-candidates.ts';
import { chatPriceMicro, type ReportedUsage, type TokenUsage } from './chat-price.ts';

/** How a chat ended. */
export type ChatEnd =
  /** The answer is complete. */
  | 'complete'
  /** The provider ended its stream before the answer was complete. */
  | 'broken'
  /** The caller disconnected, or stopped reading. */
  | 'left'
  /** No answer can be returned: the provider failed, or its answer was unusable. */
  | 'failed';

/** Data from which the tokens of a chat are calculated. */
export interface ChatCounts {
  candidate: ChatCandidate;
  /** Request to the model; null before the first call. */
  sent: EncodedRequest | null;
  /** True if the provider responded with a success status. */
  accepted: boolean;
  /** True if any output of the model was sent to the caller. */
  delivered: boolean;
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
 * Calculates which tokens to charge:
 * - `failed`: none
 * - `broken`: none if no output was delivered, otherwise as `complete`
 * - `left`: none if the provider has not yet responded with a success status, otherwise as
 *   `complete`, because the provider bills the input from then on
 * - `complete`: the tokens of the provider's final report, even if they are zero. If there is no
 *   final report, the input as the provider reported it (or as the gateway estimated it), and the
 *   delivered output as the gateway counted it.
 */
export function calculateBilling(end: ChatEnd, counts: ChatCounts): Billing {
  const { accepted, delivered } = counts;
  if (end === 'failed' || (end === 'broken' && !delivered) || (end === 'left' && !accepted)) {
    return released;
  }
  const { final, ...reported } = reportedUsage(counts);
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = reported;
  return {
    to: 'charged',
    ...usageToCharge(counts),
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(final && reasoningTokens && { reasoningTokens }),
    countedBy: final ? 'provider' : 'gateway',
  };
}

/** Returns whether the reported usage is within what the request can use. */
export function isPlausible({ reported, sent }: ChatCounts): boolean {
  const { inputTokens = 0, outputTokens = 0 } = reported;
  if (!sent) return true;
  return inputTokens <= sent.usageMax.inputTokens && outputTokens <= sent.usageMax.outputTokens;
}

/** Returns the usage that the provider reported, or no usage if the report is not plausible. */
export function reportedUsage(counts: ChatCounts): ReportedUsage {
  const { reported, sent } = counts;
  if (!isPlausible(counts)) return { final: false };
  const { inputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  // If the request does not enable the cache, reported cache writes are billed as plain input.
  const writeMax = sent?.usageMax.cacheWriteTokens ?? 0;
  const cached = Math.min(cachedInputTokens, inputTokens);
  return {
    ...reported,
    cachedInputTokens: cached,
    cacheWriteTokens: Math.min(cacheWriteTokens, writeMax, inputTokens - cached),
  };
}

/**
 * Returns the tokens to charge if the chat ended now. If the provider's final report has arrived,
 * returns its tokens. Otherwise, output tokens are the gateway's own count of the delivered output;
 * input tokens are those reported so far, or the gateway's estimate if none were reported.
 */
export function usageToCharge(counts: ChatCounts): TokenUsage {
  const { candidate, sent, outputTokens } = counts;
  const reported = reportedUsage(counts);
  const { inputTokens = 0, outputTokens: reportedOutput = 0 } = reported;
  if (reported.final) return { inputTokens, outputTokens: reportedOutput };
  return {
    inputTokens: inputTokens || candidate.tokens.input,
    outputTokens: Math.min(outputTokens, sent?.usageMax.outputTokens ?? 0),
  };
}

/** Calculates the price of tokens in micro-credits. Cache tokens are priced as reported. */
export function usagePriceMicro(
  counts: ChatCounts,
  { inputTokens, outputTokens }: TokenUsage,
  usdPerCredit: number,
): number {
  const { model, tokens } = counts.candidate;
  const reported = reportedUsage(counts);
  const { cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  const uncachedTokens = inputTokens - cachedInputTokens - cacheWriteTokens;
  // If the provider does not report audio tokens, they are the reported input minus the estimated
  // text tokens.
  const audio = reported.audioInputTokens ?? inputTokens - (tokens.input - tokens.audioInput);
  const audioInputTokens = tokens.audioInput > 0 ? Math.min(Math.max(0, audio), uncachedTokens) : 0;
  const input = { inputTokens, audioInputTokens, cachedInputTokens, cacheWriteTokens };
  return chatPriceMicro(model, { ...input, outputTokens }, usdPerCredit);
}
