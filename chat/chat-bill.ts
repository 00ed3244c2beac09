/** Bill of a chat: the tokens that are charged at its end (docs/chat.md). */
import type { TokenUsage } from './chat-price.ts';

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

/** Facts of a chat that has ended. */
export interface ChatAccount {
  end: ChatEnd;
  /** True if the provider responded with a success status. */
  accepted: boolean;
  /** True if any output of the model was sent to the caller. */
  delivered: boolean;
  /** Usage as reported by the provider; `final` if it covers the whole answer. */
  reported: Partial<TokenUsage> & { final: boolean };
  /**
   * Usage that the gateway itself has counted: an estimate of the input, and the output that was
   * relayed.
   */
  counted: TokenUsage;
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
export function billOf({ end, accepted, delivered, reported, counted }: ChatAccount): Billing {
  if (end === 'refused' || (end === 'broken' && !delivered) || (end === 'left' && !accepted)) {
    return released;
  }
  const { inputTokens = counted.inputTokens, outputTokens, final } = reported;
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = reported;
  const isFinal = final && outputTokens !== undefined;
  return {
    to: 'charged',
    inputTokens,
    outputTokens: isFinal ? outputTokens : counted.outputTokens,
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(isFinal && reasoningTokens && { reasoningTokens }),
    countedBy: isFinal ? 'provider' : 'gateway',
  };
}
