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
import type { Balance, SettleVerdict } from '../ledger/ledger.ts';

/** A reservation for a chat: as much of the most as the balance has, at least the least. */
export interface ChatReserve {
  organizationId: string;
  id: string;
  amountMinMicro: number;
  amountMaxMicro: number;
  /** After this the sweeper settles, unless a checkpoint came. */
  ttlMs: number;
  chat: { keyId: string; model: string; provider: string; streamed: boolean; requestId: string };
}

/** The ledger's word; `amount` in micro-credits was reserved. */
export type ChatReserveVerdict =
  | { verdict: 'reserved'; amount: number; balance: Balance }
  | { verdict: 'insufficient_credits'; required: number; balance: Balance };

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

/** A chat that the sweeper settled. */
export interface SweptChat {
  id: string;
  state: string;
  charged: number;
}

/** Moves and reads. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<ChatReserveVerdict>;
  settle: (settle: ChatSettle) => Promise<SettleVerdict>;
  /** One statement for all running chats of a process. */
  checkpoint: (progress: ChatProgress[], ttlMs: number) => Promise<void>;
  /** Settles chats whose API is gone, by their last checkpoint. */
  sweep: () => Promise<readonly SweptChat[]>;
}

type Answer =
  | ChatReserveVerdict
  | SettleVerdict
  | { verdict: 'mismatch' | 'no_account' | 'above_reservation' };

const answers = z.object({ answers: z.custom<Answer[]>() });
const sweepCountMax = 100;

/** The chat ledger over a pool. */
export function createChatLedger(pool: DatabasePool): ChatLedger {
  const move = createBatcher<JsonObject, Answer>({
    name: 'chat',
    sizeMax: 200,
    // One batch at a time: moves of one organization would only wait for each other's lock.
    parallelMax: 1,
    run: (moves) =>
      pool.oneFirst(sql.type(answers)`SELECT chat_apply(${sql.jsonb(moves)}) AS answers`),
  });
  return {
    async reserve({ amountMinMicro, amountMaxMicro, ...rest }) {
      const answer = await move({
        verb: 'reserve',
        amountMin: amountMinMicro,
        amountMax: amountMaxMicro,
        ...rest,
      });
      assert(isReserveVerdict(answer), `a reservation is decided, not ${answer.verdict}`);
      return answer;
    },
    async settle({ amountMicro, ...rest }) {
      assert(Number.isSafeInteger(amountMicro) && amountMicro >= 0, 'a charge is whole');
      const answer = await move({ verb: 'settle', amount: amountMicro, ...rest });
      assert(isSettleVerdict(answer), `a reservation is settled, not ${answer.verdict}`);
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
    sweep: () =>
      pool.any(sql.type(z.object({ id: z.string(), state: z.string(), charged: z.number() }))`
        SELECT id, state, charged FROM chat_sweep(${sweepCountMax})`),
  };
}

function isReserveVerdict(answer: Answer): answer is ChatReserveVerdict {
  return ['reserved', 'insufficient_credits'].includes(answer.verdict);
}

function isSettleVerdict(answer: Answer): answer is SettleVerdict {
  return ['settled', 'already_settled', 'not_reserved'].includes(answer.verdict);
}
