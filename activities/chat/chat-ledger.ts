/**
 * Money moves of chat, in the same ledger as Studio: each costs one round trip that it shares with the
 * moves made at the same time (group commit).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import type { JsonObject } from '../../domain/json.ts';
import { createBatcher } from '../../platform/batch.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { createLeaseRecall } from '../ledger/lease-recall.ts';
import type { Balance, SettleVerdict } from '../../jobs/ledger-verdicts.ts';
import type { AbandonedChat } from './abandoned-chats.ts';

/** An Idempotency-Key, and the token of the request that holds it. */
export interface ChatClaim {
  key: string;
  attempt: string;
}

/** A reservation for a chat: as much of the most as the balance has, at least the least. */
export interface ChatReserve {
  organizationId: string;
  id: string;
  amountMinMicro: number;
  amountMaxMicro: number;
  /** After this the sweeper settles, unless a checkpoint came. */
  ttlMs: number;
  /** Of a keyed chat: it is refused in the same statement unless the claim still names it. */
  claim?: ChatClaim;
  chat: { keyId: string; model: string; provider: string; streamed: boolean; requestId: string };
}

/** The ledger's word; `amount` in micro-credits was reserved. */
export type ChatReserveVerdict =
  | { verdict: 'reserved'; amount: number; balance: Balance }
  | { verdict: 'insufficient_credits'; required: number; balance: Balance }
  | { verdict: 'claim_lost' };

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
}

/** How far a running chat has got. */
export interface ChatProgress {
  id: string;
  inputTokens: number;
  outputTokens: number;
  /** Micro-credits of what was delivered. */
  amountMicro: number;
}

/** A chat that is paid from a lease, as the ledger keeps it; `reserved` is a checkpoint of one that runs. */
export type LeasedChat = ChatReserve['chat'] & {
  id: string;
  state: 'reserved' | 'charged' | 'released';
  /** Micro-credits. */
  amount: number;
  reason: string | null;
  input: number;
  output: number;
  countedBy: 'provider' | 'gateway' | null;
  /** Milliseconds since it began. */
  ageMs: number;
};

/** Books chats on a lease, and sets what is held from then on. */
export interface LeaseSync {
  organizationId: string;
  /** Of the lease; a new id opens one. */
  id: string;
  /** What is wished for; 0 ends the lease. */
  holdMicro: number;
  /** After this the sweeper ends the lease, unless it was heard of. */
  ttlMs: number;
  chats: LeasedChat[];
}

/** The ledger's word on a lease; `held` is at most a quarter of the balance and what it held before. */
export type LeaseVerdict = { verdict: 'held'; held: number } | { verdict: 'lease_lost' };

/** A chat, or a lease, that the sweeper settled. */
export interface SweptChat {
  id: string;
  state: string;
  charged: number;
}

/** Moves and reads. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<ChatReserveVerdict>;
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
  /** Safe to repeat: chats are known by their ids. */
  lease: (sync: LeaseSync) => Promise<LeaseVerdict>;
  /** One statement for all running chats of a process. */
  checkpoint: (progress: ChatProgress[], ttlMs: number) => Promise<void>;
  /** Settles chats and ends leases whose API is gone, by their last checkpoints. */
  sweep: (terms: ChatSweep) => Promise<readonly SweptChat[]>;
}

/** When an API counts as gone: nothing was heard of it until its time, and again for the grace. */
export interface ChatSweep {
  /** Begins when a sweep finds the time over: Postgres itself may have been away until just now. */
  graceMs: number;
  /** How often it is swept. A grace that ended long before was an outage, and begins again. */
  everyMs: number;
}

type Answer =
  | ChatReserveVerdict
  | SettleVerdict
  | LeaseVerdict
  | { verdict: 'mismatch' | 'no_account' | 'above_reservation' };

const answers = z.object({ answers: z.custom<Answer[]>() });
const abandonedCount = z.object({
  abandoned: z.number(),
  lostMicro: z.number(),
  paidMicro: z.number(),
});
type AbandonedCount = z.infer<typeof abandonedCount>;
const sweepCountMax = 100;

/** The chat ledger over a pool. */
export function createChatLedger(pool: DatabasePool): ChatLedger {
  const afterRecall = createLeaseRecall(pool);
  const move = createBatcher<JsonObject, Answer>({
    name: 'chat',
    sizeMax: 200,
    // One batch at a time: moves of one organization would only wait for each other's lock.
    parallelMax: 1,
    run: (moves) =>
      pool.oneFirst(sql.type(answers)`SELECT chat_apply(${sql.jsonb(moves)}) AS answers`),
  });
  return {
    async reserve({ amountMinMicro, amountMaxMicro, claim, ...rest }) {
      const answer = await afterRecall(rest.organizationId, () =>
        move({
          verb: 'reserve',
          amountMin: amountMinMicro,
          amountMax: amountMaxMicro,
          ...(claim && { claim: { ...claim } }),
          ...rest,
        }),
      );
      assert(isReserveVerdict(answer), `a reservation is decided, not ${answer.verdict}`);
      return answer;
    },
    async settle({ amountMicro, ...rest }) {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      const answer = await move({ verb: 'settle', amount: amountMicro, ...rest });
      assert(isSettleVerdict(answer), `a reservation is settled, not ${answer.verdict}`);
      return answer;
    },
    async raise({ organizationId, id, amountMicro }) {
      const { amount } = await afterRecall(organizationId, async () => {
        const raised = await pool.oneFirst(sql.type(z.object({ amount: z.number() }))`
          SELECT chat_raise(${organizationId}, ${id}, ${amountMicro}) AS amount`);
        const required = amountMicro - raised;
        return {
          verdict: required > 0 ? 'insufficient_credits' : 'raised',
          required,
          amount: raised,
        };
      });
      return amount;
    },
    abandon: ({ id, keyId, lostMicro }, withinMs) =>
      pool.oneFirst(sql.type(z.object({ count: abandonedCount }))`
        SELECT chat_abandon(${id}, ${keyId}, ${lostMicro},
          ${withinMs} * interval '1 millisecond') AS count`),
    async lease({ holdMicro, ...rest }) {
      const answer = await move({ verb: 'lease', hold: holdMicro, ...rest });
      assert(isLeaseVerdict(answer), `a lease is held or lost, not ${answer.verdict}`);
      return answer;
    },
    async checkpoint(progress, ttlMs) {
      const rows = progress.map(({ id, inputTokens, outputTokens, amountMicro }) => ({
        id,
        input: inputTokens,
        output: outputTokens,
        amount: amountMicro,
      }));
      await pool.query(sql.type(z.object({}))`SELECT chat_checkpoint(${sql.jsonb(rows)},
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
  await pool.query(sql.type(z.object({}))`UPDATE reservation
    SET owner_missing_at = now(), expires_at = now() + ${grace}
    WHERE state = 'reserved' AND kind IN ('chat', 'lease') AND expires_at < now()
      AND (owner_missing_at + ${grace} IS DISTINCT FROM expires_at
        OR expires_at < now() - ${outage})`);
  return pool.any(sql.type(
    z.object({ id: z.string(), state: z.string(), charged: z.number() }),
  )`SELECT id, state, charged FROM chat_sweep(${sweepCountMax})
    UNION ALL SELECT id, state, charged FROM chat_lease_sweep(${sweepCountMax})`);
}

function isReserveVerdict(answer: Answer): answer is ChatReserveVerdict {
  return ['reserved', 'insufficient_credits', 'claim_lost'].includes(answer.verdict);
}

function isLeaseVerdict(answer: Answer): answer is LeaseVerdict {
  return ['held', 'lease_lost'].includes(answer.verdict);
}

function isSettleVerdict(answer: Answer): answer is SettleVerdict {
  return ['settled', 'already_settled', 'not_reserved'].includes(answer.verdict);
}
