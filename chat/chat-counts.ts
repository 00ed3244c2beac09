/** Usage of one chat: what the provider reports, if it is possible, else the gateway's own count. */
import type { ChatAccount } from './chat-bill.ts';
import type { ChatCandidate, SentRequest } from './chat-candidates.ts';
import { chatPriceMicro, type TokenUsage } from './chat-price.ts';

/** Facts from which the usage of a chat is counted. */
export interface ChatCounts {
  candidate: ChatCandidate;
  /** Request to the model; null before the first call. */
  sent: SentRequest | null;
  reported: ChatAccount['reported'];
  /** Output tokens that the gateway itself has counted. */
  outputTokens: number;
}

/** Checks reported usage against the request: a larger number is an error of the provider. */
export function isPossible({ reported, sent }: ChatCounts): boolean {
  const { inputTokens = 0, outputTokens = 0 } = reported;
  if (!sent) return true;
  return inputTokens <= sent.usageMax.inputTokens && outputTokens <= sent.usageMax.outputTokens;
}

/** Returns the usage that the provider reported, if it is possible for the request. */
export function reportedUsage(counts: ChatCounts): ChatAccount['reported'] {
  const { reported, sent } = counts;
  if (!isPossible(counts)) return { final: false };
  const { inputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  // If the request does not enable the cache, reported cache writes count as other input.
  const writeMax = sent?.usageMax.cacheWriteTokens ?? 0;
  const cached = Math.min(cachedInputTokens, inputTokens);
  return {
    ...reported,
    cachedInputTokens: cached,
    cacheWriteTokens: Math.min(cacheWriteTokens, writeMax, inputTokens - cached),
  };
}

/** Returns the input, as far as possible by the provider's count, and the output by our count. */
export function countedUsage(counts: ChatCounts): TokenUsage {
  const { candidate, sent, outputTokens } = counts;
  return {
    inputTokens: reportedUsage(counts).inputTokens ?? candidate.tokens.input,
    outputTokens: Math.min(outputTokens, sent?.usageMax.outputTokens ?? 0),
  };
}

/** Calculates the price of a usage in micro-credits, with the reported tokens of the cache. */
export function usagePriceMicro(
  counts: ChatCounts,
  { inputTokens, outputTokens }: TokenUsage,
  usdPerCredit: number,
): number {
  const { model, tokens } = counts.candidate;
  const reported = reportedUsage(counts);
  const { cachedInputTokens = 0, cacheWriteTokens = 0 } = reported;
  const room = inputTokens - cachedInputTokens - cacheWriteTokens;
  // A provider that does not report audio tokens counts them as input, like the rest.
  const audio = reported.audioInputTokens ?? inputTokens - (tokens.input - tokens.audioInput);
  const audioInputTokens = tokens.audioInput > 0 ? Math.min(Math.max(0, audio), room) : 0;
  const input = { inputTokens, audioInputTokens, cachedInputTokens, cacheWriteTokens };
  return chatPriceMicro(model, { ...input, outputTokens }, usdPerCredit);
}
