/** Types of the chat ledger: reservation, checkpoint, settlement and sweep of chats. */
import { z } from 'zod';
import {
  balance,
  insufficientCredits,
  keyLimitExceeded,
  type SettleResult,
} from '../domain/ledger-results.ts';

/** Claim of an Idempotency-Key. `attempt` identifies the request that holds the claim. */
export interface ChatClaim {
  key: string;
  attempt: string;
}

/**
 * Amounts of a reservation in micro-credits. Free credits are those that the balance and the budget
 * of the key allow to spend.
 */
export interface ReserveAmounts {
  /** Price of the shortest answer. With fewer free credits, the chat is rejected. */
  amountMinMicro: number;
  /** Price of an answer of the expected length: reserved if there are enough free credits. */
  amountExpectedMicro: number;
  /** Price of the longest answer: reserved if it is at most the free credits / `freeDivisor`. */
  amountMaxMicro: number;
  freeDivisor: number;
}

/** Organization and API key whose credits are reserved. */
interface Holder {
  organizationId: string;
  keyId: string;
}

/** Reservation for a chat. */
export interface ChatReserve extends ReserveAmounts {
  id: string;
  organizationId: string;
  /** Milliseconds without a checkpoint after which the sweeper settles the chat. */
  ttlMs: number;
  /**
   * Claim of the Idempotency-Key. If another request has taken over the claim, the reservation is
   * rejected.
   */
  claim?: ChatClaim;
  chat: {
    keyId: string;
    model: string;
    provider: string;
    streamed: boolean;
    requestId: string;
    metadata?: Record<string, string>;
  };
}

/** Result of a reservation. `amount`: the reserved micro-credits. */
export const chatReserveResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('reserved'),
    amount: z.number(),
    balance,
  }),
  insufficientCredits,
  keyLimitExceeded,
  z.object({ verdict: z.literal('claim_lost') }),
]);

/** Settlement of a chat. */
export interface ChatSettle {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  /**
   * Price in micro-credits, which is charged in full. It may exceed the reservation, because the
   * provider may count more input than the gateway.
   */
  amountMicro: number;
  reason: string;
  inputTokens: number;
  outputTokens: number;
  /** Input tokens that were read from the prompt cache; 0 by default. */
  cachedInputTokens?: number;
  /** Input tokens that were written to the prompt cache; 0 by default. */
  cacheWriteTokens?: number;
  /** Reasoning tokens among the output tokens; 0 by default. */
  reasoningTokens?: number;
  countedBy: 'provider' | 'gateway' | null;
  servedBy: ServedBy;
}

/** Model and provider that were called most recently for a chat. */
export type ServedBy = { model: string; provider: string };

/** Progress of a running chat. */
export interface ChatProgress {
  id: string;
  servedBy: ServedBy;
  inputTokens: number;
  outputTokens: number;
  /** Price of the input and the delivered output, in micro-credits. */
  amountMicro: number;
  /** Time in milliseconds from now until the reservation expires. */
  ttlMs: number;
}

/** Chat that the sweeper has settled. */
export const sweptChat = z.object({ id: z.string(), state: z.string(), charged: z.number() });

/** Ledger of chats. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<z.infer<typeof chatReserveResult>>;
  /** Returns the micro-credits that `reserve` would reserve now; if it rejects, the minimum. */
  price: (holder: Holder, amounts: ReserveAmounts) => Promise<number>;
  settle: (settle: ChatSettle) => Promise<SettleResult>;
  /** Records a chat's progress and extends its reservation. Concurrent calls share a statement. */
  checkpoint: (progress: ChatProgress) => Promise<void>;
  /** Settles the chats of crashed processes, based on their last checkpoints. */
  sweep: (terms: ChatSweep) => Promise<readonly z.infer<typeof sweptChat>[]>;
}

/** Times that determine when the process of a chat is presumed crashed. */
export interface ChatSweep {
  /**
   * Time in milliseconds that the sweeper waits after it first finds a reservation expired. The
   * chat may still be running: while Postgres is unavailable, it cannot record its progress.
   */
  graceMs: number;
  /**
   * Time between sweeps, in milliseconds. If a sweep finds that a grace period ended more than
   * three times this long ago, an outage interrupted the sweeps, and the grace period starts again.
   */
  everyMs: number;
}
