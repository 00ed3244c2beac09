/**
 * Ledger of chats. It uses the same tables as the ledger of Studio. Simultaneous operations share
 * one round trip and one commit (group commit).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import { settleResult } from '../domain/ledger-results.ts';
import { createApplyOperation } from '../ledger/ledger-batches.ts';
import { createBatcher } from '../platform/batch.ts';
import {
  chatReserveResult,
  sweptChat,
  type ChatLedger,
  type ChatProgress,
  type ChatSweep,
  type ReserveAmounts,
} from './ledger-types.ts';

const priceRow = z.object({ price: z.number() });
const sweepCountMax = 100;

/** Creates the chat ledger. Command-line tools pass no `metrics`. */
export function createChatLedger(pool: DatabasePool, metrics?: Metrics): ChatLedger {
  const applyOperation = createApplyOperation(pool, { name: 'chat', metrics });
  const checkpoint = createBatcher<ChatProgress, null>({
    name: 'checkpoint',
    metrics,
    sizeMax: 200,
    parallelMax: 1,
    async run(progress) {
      const rows = progress.map(({ amountMicro: amount, servedBy, ...rest }) => ({
        amount,
        ...servedBy,
        ...rest,
      }));
      await pool.query(command`SELECT chat_checkpoint(${sql.jsonb(rows)})`);
      return progress.map(() => null);
    },
  });
  return {
    reserve: ({ id, organizationId, ttlMs, chat, claim, ...amounts }) =>
      applyOperation(
        {
          verb: 'reserve',
          ...toReserveFields(amounts),
          id,
          organizationId,
          ttlMs,
          chat,
          ...(claim && { claim: { ...claim } }),
        },
        chatReserveResult,
      ),
    price: ({ organizationId, keyId }, amounts) =>
      pool.oneFirst(sql.type(priceRow)`
        SELECT coalesce(answer->>'amount', answer->>'required')::bigint AS price
        FROM account a, LATERAL (SELECT (decide_reserve(a, NULL,
          ${sql.jsonb(toReserveFields(amounts))}, key_budget(${keyId}))).answer) AS decided
        WHERE organization_id = ${organizationId}`),
    async settle({ amountMicro, servedBy, ...rest }) {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the charge must be a non-negative integer',
      );
      return applyOperation(
        { verb: 'settle', amount: amountMicro, ...servedBy, ...rest },
        settleResult,
      );
    },
    checkpoint: async (progress) => void (await checkpoint(progress)),
    sweep: (terms) => sweep(pool, terms),
  };
}

/** Returns the fields of a ledger operation that define how much it reserves. */
function toReserveFields(amounts: ReserveAmounts) {
  return {
    kind: 'chat',
    amountMin: amounts.amountMinMicro,
    amountExpected: amounts.amountExpectedMicro,
    amountMax: amounts.amountMaxMicro,
    freeDivisor: amounts.freeDivisor,
  };
}

async function sweep(
  pool: DatabasePool,
  { graceMs, everyMs }: ChatSweep,
): ReturnType<ChatLedger['sweep']> {
  const gracePeriod = sql.fragment`${graceMs} * interval '1 millisecond'`;
  const outageMin = sql.fragment`${3 * everyMs} * interval '1 millisecond'`;
  // Starts a grace period for a chat whose reservation is found expired for the first time, or for
  // the first time since the chat recorded progress or an outage ended.
  await pool.query(command`UPDATE reservation
    SET owner_missing_at = now(), expires_at = now() + ${gracePeriod}
    WHERE state = 'reserved' AND kind = 'chat' AND expires_at < now()
      AND (owner_missing_at + ${gracePeriod} IS DISTINCT FROM expires_at
        OR expires_at < now() - ${outageMin})`);
  return pool.any(sql.type(sweptChat)`SELECT id, state, charged FROM chat_sweep(${sweepCountMax})`);
}
