/**
 * Bill of a chat: the tokens that are charged at its end, by the provider's report if it is
 * possible, else by the gateway's own count (docs/chat.md).
 */
import type { ChatCandidate, SentRequest } from './chat-candidates.ts';
import { chatPriceMicro, type ReportedUsage, type TokenUsage } from './chat-price.ts';

/** End of a chat. */
export type ChatEnd =
  /** The answer is complete. */
  | 'complete'
  /** The provider ended its stream before the answer was complete. */
  | 'broken'
  /** The caller disconnected, or stopped reading. */
  | 'left'
  /** The provider sent no answer. */
  | 'refused';

/** Facts of a chat from which its tokens are counted. */
export interface ChatCounts {
  candidate: ChatCandidate;
  /** Request to the model; null before the first call. */
  sent: SentRequest | null;
  /** True if the provider responded with a success status. */
  accepted: boolean;
  /** True if any output of the model was sent to the caller. */
  delivered: boolean;
  reported: ReportedUsage;
  /** Output tokens that the gateway itself has counted. */
  outputTokens: number;
}

/** Tokens to charge. */
export interface Billing extends TokenUsage {
  to: 'charged' | 'released';
  countedBy: 'provider' | 'gateway' | null;
}

const released: Billing = { to: 'released', inputTokens: 0, outputTokens: 0, countedBy: null };

/**
 * Calculates the bill of a chat. The final count of the provider is charged, also if it is zero.
 * Without a final count, the input and the output that was delivered are charged by the provider's
 * count of the input and the gateway's count of the output. A chat that failed before it delivered
 * anything is free. A caller who disconnects pays for the input from the moment at which the
 * provider responded with a success status, because the provider bills it from then on.
 */
export function billOf(end: ChatEnd, counts: ChatCounts): Billing {
  const { accepted, delivered } = counts;
  if (end === 'refused' || (end === 'broken' && !delivered) || (end === 'left' && !accepted)) {
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

/** Checks reported usage against the request: a larger number is an error of the provider. */
export function isPossible({ reported, sent }: ChatCounts): boolean {
  const { inputTokens = 0, outputTokens = 0 } = reported;
  if (!sent) return true;
  return inputTokens <= sent.usageMax.inputTokens && outputTokens <= sent.usageMax.outputTokens;
}

/** Returns the usage that the provider reported, if it is possible for the request. */
export function reportedUsage(counts: ChatCounts): ReportedUsage {
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

/**
 * Returns the tokens to charge now: the provider's final count. Before it, the output that was
 * delivered by the gateway's count, and the input by the provider's count unless that is still 0.
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
