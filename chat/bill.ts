/**
 * Calculates the tokens for which a chat is charged: the provider's counts, each limited to the
 * maximum that the request allows, and the gateway's own counts where the provider reports none
 * (docs/chat.md).
 */
import type { ChatCandidate, EncodedRequest } from './candidates.ts';
import type { ReportedUsage, TokenUsage } from './price.ts';

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
