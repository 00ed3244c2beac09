/**
 * Money moves of chat, in the same ledger as Studio: each costs one round trip that it shares with the
 * moves made at the same time (group commit).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Metrics } from '../../platform/metrics.ts';
import {
  balance,
  insufficientCredits,
  keyLimitExceeded,
  settleVerdict,
  type SettleVerdict,
} from '../../jobs/ledger-verdicts.ts';
import { createLedgerMoves } from '../ledger/ledger.ts';
import type { AbandonedChat } from './running-chats.ts';

/** An Idempotency-Key, and the token of the request that holds it. */
export interface ChatClaim {
  key: string;
  attempt: string;
}

/** What a chat may reserve: as much of the most as the balance and the key have, at least the least. */
interface ChatPrice {
  organizationId: string;
  keyId: string;
  /** Micro-credits. */
  amountMinMicro: number;
  amountMaxMicro: number;
}

/** A reservation for a chat: as much of the most as the balance has, at least the least. */
export interface ChatReserve extends Omit<ChatPrice, 'keyId'> {
  id: string;
  /** After this the sweeper settles, unless a checkpoint came. */
  ttlMs: number;
  /** Of a keyed chat: it is refused in the same statement unless the claim still names it. */
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

/** The answer; `amount` in micro-credits was reserved. */
const chatReserveVerdict = z.discriminatedUnion('verdict', [
  z.object({ verdict: z.literal('reserved'), amount: z.number(), balance }),
  insufficientCredits,
  keyLimitExceeded,
  z.object({ verdict: z.literal('claim_lost') }),
]);

/** A reservation that is too small. */
export interface ChatRaise {
  organizationId: string;
  id: string;
  amountMicro: number;
}

/** How a chat ends. */
export interface ChatSettle {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  amountMicro: number;
  reason: string;
  inputTokens: number;
  outputTokens: number;
  countedBy: 'provider' | 'gateway' | null;
  served: ServedBy;
}

/** Which model answers a chat, and who serves it; of several, the one that was asked last. */
export type ServedBy = { model: string; provider: string };

/** How far a running chat has got. */
export interface ChatProgress {
  id: string;
  served: ServedBy;
  inputTokens: number;
  outputTokens: number;
  /** Micro-credits of what was delivered. */
  amountMicro: number;
}

const raiseVerdict = z.object({ verdict: z.literal('raised'), amount: z.number() });

/** A chat that the sweeper settled. */
const sweptChat = z.object({ id: z.string(), state: z.string(), charged: z.number() });

/** Moves and reads. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<z.infer<typeof chatReserveVerdict>>;
  /** Micro-credits that such a reservation would take, or lack, now; nothing is moved. */
  price: (wanted: ChatPrice) => Promise<number>;
  settle: (settle: ChatSettle) => Promise<SettleVerdict>;
  /**
   * Raises the open reservation of a chat to this many micro-credits, or as far as the balance goes.
   * @returns what is reserved then
   */
  raise: (raise: ChatRaise) => Promise<number>;
  /**
   * Notes an abandoned chat.
   * @returns what its key abandoned, lost and paid (micro-credits) in the last `withinMs`
   */
  abandon: (chat: AbandonedChat, withinMs: number) => Promise<AbandonedCount>;
  /** One statement for all running chats of a process. */
  checkpoint: (progress: ChatProgress[], ttlMs: number) => Promise<void>;
  /** Settles chats whose API is gone, by their last checkpoints. */
  sweep: (terms: ChatSweep) => Promise<readonly z.infer<typeof sweptChat>[]>;
}

/** When an API counts as gone: nothing was heard of it until its time, and again for the grace. */
export interface ChatSweep {
  /** Begins when a sweep finds the time over: Postgres itself may have been away until just now. */
  graceMs: number;
  /** How often it is swept. A grace that ended long before was an outage, and begins again. */
  everyMs: number;
}

const abandonedCount = z.object({
  abandoned: z.number(),
  lostMicro: z.number(),
  paidMicro: z.number(),
});
type AbandonedCount = z.infer<typeof abandonedCount>;
const abandonedRow = z.object({ count: abandonedCount });
const priceRow = z.object({ price: z.number() });
const none = z.object({});
const sweepCountMax = 100;

/** The chat ledger over a pool. */
export function createChatLedger(pool: DatabasePool, metrics?: Metrics): ChatLedger {
  const move = createLedgerMoves(pool, { name: 'chat', metrics });
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
    async settle({ amountMicro, ...rest }) {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      return move({ verb: 'settle', amount: amountMicro, ...rest }, settleVerdict);
    },
    async raise({ amountMicro, ...rest }) {
      const raised = await move({ verb: 'raise', amount: amountMicro, ...rest }, raiseVerdict);
      return raised.amount;
    },
    abandon: ({ id, keyId, lostMicro }, withinMs) =>
      pool.oneFirst(sql.type(abandonedRow)`
        SELECT chat_abandon(${id}, ${keyId}, ${lostMicro},
          ${withinMs} * interval '1 millisecond') AS count`),
    async checkpoint(progress, ttlMs) {
      const rows = progress.map(({ amountMicro, ...rest }) => ({ amount: amountMicro, ...rest }));
      await pool.query(sql.type(none)`SELECT chat_checkpoint(${sql.jsonb(rows)},
        ${ttlMs} * interval '1 millisecond')`);
    },
    sweep: (terms) => sweep(pool, terms),
  };
}

async function sweep(
  pool: DatabasePool,
  { graceMs, everyMs }: ChatSweep,
): ReturnType<ChatLedger['sweep']> {
  const grace = sql.fragment`${graceMs} * interval '1 millisecond'`;
  const outage = sql.fragment`${3 * everyMs} * interval '1 millisecond'`;
  // Who was heard of since has another time than the grace gave; so has who was never missed.
  await pool.query(sql.type(none)`UPDATE reservation
    SET owner_missing_at = now(), expires_at = now() + ${grace}
    WHERE state = 'reserved' AND kind = 'chat' AND expires_at < now()
      AND (owner_missing_at + ${grace} IS DISTINCT FROM expires_at
        OR expires_at < now() - ${outage})`);
  return pool.any(sql.type(sweptChat)`SELECT id, state, charged FROM chat_sweep(${sweepCountMax})`);
}
