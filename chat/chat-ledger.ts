/**
 * Ledger moves of chats, in the same ledger as Studio. Moves that are requested at the same time
 * share one round trip (group commit).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import {
  balance,
  insufficientCredits,
  keyLimitExceeded,
  settleVerdict,
  type SettleVerdict,
} from '../jobs/ledger-verdicts.ts';
import { createLedgerMoves } from '../ledger/ledger-moves.ts';
import { createBatcher } from '../platform/batch.ts';

/** Idempotency-Key, and the token of the request that holds it. */
export interface ChatClaim {
  key: string;
  attempt: string;
}

/**
 * Amounts of a reservation. It is as much of `amountMaxMicro` as balance and key allow, and at
 * least `amountMinMicro`.
 */
interface ChatPrice {
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
const chatReserveVerdict = z.discriminatedUnion('verdict', [
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
const sweptChat = z.object({ id: z.string(), state: z.string(), charged: z.number() });

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

const priceRow = z.object({ price: z.number() });
const sweepCountMax = 100;

/** Makes the chat ledger over a pool; `metrics` are absent in tools. */
export function createChatLedger(pool: DatabasePool, metrics?: Metrics): ChatLedger {
  const move = createLedgerMoves(pool, { name: 'chat', metrics });
  const checkpoint = createBatcher<ChatProgress, null>({
    name: 'checkpoint',
    metrics,
    sizeMax: 200,
    parallelMax: 1,
    async run(progress) {
      const rows = progress.map(({ amountMicro: amount, served, ...rest }) => ({
        amount,
        ...served,
        ...rest,
      }));
      await pool.query(command`SELECT chat_checkpoint(${sql.jsonb(rows)})`);
      return progress.map(() => null);
    },
  });
  return {
    reserve: ({ amountMinMicro, amountMaxMicro, claim, ...rest }) =>
      move(
        {
          verb: 'reserve',
          kind: 'chat',
          amountMin: amountMinMicro,
          amountMax: amountMaxMicro,
          ...(claim && { claim: { ...claim } }),
          ...rest,
        },
        chatReserveVerdict,
      ),
    price: ({ organizationId, keyId, amountMinMicro: amountMin, amountMaxMicro: amountMax }) =>
      pool.oneFirst(sql.type(priceRow)`
        SELECT coalesce(answer->>'amount', answer->>'required')::bigint AS price
        FROM account a, LATERAL (SELECT (decide_reserve(a, NULL,
          ${sql.jsonb({ kind: 'chat', amountMin, amountMax })}, key_budget(${keyId}))).answer) AS decided
        WHERE organization_id = ${organizationId}`),
    async settle({ amountMicro, served, ...rest }) {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      return move({ verb: 'settle', amount: amountMicro, ...served, ...rest }, settleVerdict);
    },
    checkpoint: async (progress) => void (await checkpoint(progress)),
    sweep: (terms) => sweep(pool, terms),
  };
}

async function sweep(
  pool: DatabasePool,
  { graceMs, everyMs }: ChatSweep,
): ReturnType<ChatLedger['sweep']> {
  const grace = sql.fragment`${graceMs} * interval '1 millisecond'`;
  const outage = sql.fragment`${3 * everyMs} * interval '1 millisecond'`;
  // A chat that has recorded progress since it was first found expired does not expire at the end
  // of the grace period.
  await pool.query(command`UPDATE reservation
    SET owner_missing_at = now(), expires_at = now() + ${grace}
    WHERE state = 'reserved' AND kind = 'chat' AND expires_at < now()
      AND (owner_missing_at + ${grace} IS DISTINCT FROM expires_at
        OR expires_at < now() - ${outage})`);
  return pool.any(sql.type(sweptChat)`SELECT id, state, charged FROM chat_sweep(${sweepCountMax})`);
}
