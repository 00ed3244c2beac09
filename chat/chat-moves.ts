/** Ledger moves of chats: reservation, checkpoint, settlement and sweep. */
import { z } from 'zod';
import {
  balance,
  insufficientCredits,
  keyLimitExceeded,
  type SettleVerdict,
} from '../jobs/ledger-verdicts.ts';

/** Idempotency-Key, and the token of the request that holds it. */
export interface ChatClaim {
  key: string;
  attempt: string;
}

/**
 * Amounts of a reservation. It is as much of `amountMaxMicro` as balance and key allow, and at
 * least `amountMinMicro`.
 */
export interface ChatPrice {
  organizationId: string;
  keyId: string;
  /** Micro-credits. */
  amountMinMicro: number;
  amountMaxMicro: number;
}

/** Reservation for a chat. */
export interface ChatReserve extends Omit<ChatPrice, 'keyId'> {
  id: string;
  /** Time until the sweeper settles the chat, unless a checkpoint was recorded. */
  ttlMs: number;
  /**
   * Claim of an Idempotency-Key: the reservation is rejected unless this request still holds the
   * claim.
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

/**
 * Result of a reservation of `amount` micro-credits; `payable` is the total that balance and key
 * can pay for the chat.
 */
export const chatReserveVerdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('reserved'),
    amount: z.number(),
    payable: z.number(),
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
   * Price in micro-credits; it may be more than was reserved, and is charged as far as balance and
   * key can pay.
   */
  amountMicro: number;
  reason: string;
  inputTokens: number;
  outputTokens: number;
  /** Absent: 0. */
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  countedBy: 'provider' | 'gateway' | null;
  served: ServedBy;
}

/**
 * Model and provider of a chat; if the request names several models, the one that was called last.
 */
export type ServedBy = { model: string; provider: string };

/** Progress of a running chat. */
export interface ChatProgress {
  id: string;
  served: ServedBy;
  inputTokens: number;
  outputTokens: number;
  /** Price of the input and of the output that was delivered, in micro-credits. */
  amountMicro: number;
  /** Time for which the reservation is extended, in milliseconds. */
  ttlMs: number;
}

/** Chat that the sweeper has settled. */
export const sweptChat = z.object({ id: z.string(), state: z.string(), charged: z.number() });

/** Moves and reads of the chat ledger. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<z.infer<typeof chatReserveVerdict>>;
  /**
   * Returns the micro-credits that a reservation of these amounts would need now; moves no credits.
   */
  price: (amounts: ChatPrice) => Promise<number>;
  settle: (settle: ChatSettle) => Promise<SettleVerdict>;
  /**
   * Records the progress of a chat, in one statement with that of other chats, and extends its
   * reservation.
   */
  checkpoint: (progress: ChatProgress) => Promise<void>;
  /** Settles the chats of crashed processes by their last checkpoints. */
  sweep: (terms: ChatSweep) => Promise<readonly z.infer<typeof sweptChat>[]>;
}

/** Times after which the process of a chat counts as crashed. */
export interface ChatSweep {
  /**
   * Grace period after the sweep that first finds the reservation expired, because Postgres itself
   * may have been unavailable until then.
   */
  graceMs: number;
  /**
   * Time between sweeps. If the grace period ended long before a sweep, there was an outage, and
   * the grace period begins again.
   */
  everyMs: number;
}
