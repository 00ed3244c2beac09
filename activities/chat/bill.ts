/** Who pays what for a chat: decided once, from what is known when it ends. */
import type { TokenUsage } from './chat-price.ts';

/** How a chat ended. */
export type ChatEnd =
  /** The upstream said that it is through. */
  | 'complete'
  /** The upstream broke off. */
  | 'broken'
  /** The caller went away, or stopped reading. */
  | 'left'
  /** There was no answer. */
  | 'refused';

/** What is known of a chat that has ended. */
export interface ChatAccount {
  end: ChatEnd;
  /** Whether the caller was sent anything that the model wrote. */
  delivered: boolean;
  /** The provider's word; `final` when it covers the whole answer. */
  said: { inputTokens?: number; outputTokens?: number; final: boolean };
  /** Our own count: an estimate of the input, and what was relayed. */
  counted: TokenUsage;
}

/** What is charged. */
export interface Billing extends TokenUsage {
  to: 'charged' | 'released';
  countedBy: 'provider' | 'gateway' | null;
}

const released: Billing = { to: 'released', inputTokens: 0, outputTokens: 0, countedBy: null };

/**
 * The provider's final word counts, zero included. Without one, our count of what was relayed does, with
 * the provider's count of the input where it came first. Who got nothing pays nothing, unless he left
 * when the provider had said already what it counted.
 */
export function billOf({ end, delivered, said, counted }: ChatAccount): Billing {
  const { inputTokens, outputTokens } = said;
  if (end === 'left' && !delivered && inputTokens !== undefined) {
    const output = outputTokens ?? 0;
    return { to: 'charged', inputTokens, outputTokens: output, countedBy: 'provider' };
  }
  if (end === 'refused' || (end !== 'complete' && !delivered)) return released;
  if (said.final && inputTokens !== undefined && outputTokens !== undefined) {
    return { to: 'charged', inputTokens, outputTokens, countedBy: 'provider' };
  }
  return {
    to: 'charged',
    inputTokens: inputTokens ?? counted.inputTokens,
    outputTokens: counted.outputTokens,
    countedBy: 'gateway',
  };
}

/**
 * Whether the caller left before the provider said what it counts, and pays nothing for it, or, where
 * only the provider can count the input, a guess.
 */
export function isAbandoned(
  { end, delivered, said }: ChatAccount,
  { certain }: { certain: boolean },
): boolean {
  return end === 'left' && said.inputTokens === undefined && !(delivered && certain);
}
