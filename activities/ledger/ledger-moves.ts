/**
 * Moves of the ledger (platform/sql/ledger.sql), in batches: many at once share a round trip and a commit. Who finds
 * too little asks for leased credits back, and tries again, before he refuses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import type { JsonObject } from '../../domain/json.ts';
import { createBatcher } from '../../platform/batch.ts';
import type { DatabasePool } from '../../platform/database.ts';

/**
 * Makes one move, `{verb, organizationId, id, …}`.
 * @throws AssertionError for a verdict that is none of these: the move makes no sense
 */
export type LedgerMove = <Verdict>(
  move: JsonObject,
  verdicts: z.ZodType<Verdict>,
) => Promise<Verdict>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/** Moves over a pool; `name` is that of their batches in the metrics. */
export function createLedgerMoves(pool: DatabasePool, name: string): LedgerMove {
  const apply = createBatcher<JsonObject, z.infer<typeof answer>>({
    name,
    sizeMax: 200,
    // One batch at a time: moves of one organization would only wait for each other's lock.
    parallelMax: 1,
    run: (moves) =>
      pool.oneFirst(sql.type(row)`SELECT ledger_apply(${sql.jsonb(moves)}) AS answers`),
  });
  return async (move, verdicts) => {
    const answered = await apply(move);
    const parsed = verdicts.safeParse(answered);
    assert(parsed.success, `the ledger answers ${answered.verdict}`);
    return parsed.data;
  };
}

/**
 * Runs a move, again after leases were given back where it found too little: credits that a process has leased for
 * chats to come are not spent.
 */
export type AfterRecall = <Verdict extends { verdict: string }>(
  organizationId: string,
  move: () => Promise<Verdict>,
) => Promise<Verdict>;

/** A holder answers within milliseconds; one that does not is dead or busy, and is not waited for. */
const waitsMs = [5, 15, 30, 60, 120];

const answerRow = z.object({ answer: z.object({ leased: z.number(), available: z.number() }) });

/** See `AfterRecall`. */
export function createLeaseRecall(pool: DatabasePool): AfterRecall {
  /** Refusals of one organization at the same time ask once. */
  const asking = new Map<string, Promise<{ leased: number; available: number }>>();

  function recall(organizationId: string): Promise<{ leased: number; available: number }> {
    const underWay = asking.get(organizationId);
    if (underWay) return underWay;
    const asked = pool
      .oneFirst(sql.type(answerRow)`SELECT recall_chat_leases(${organizationId}) AS answer`)
      .finally(() => asking.delete(organizationId));
    asking.set(organizationId, asked);
    return asked;
  }

  return async (organizationId, move) => {
    let verdict = await move();
    for (const waitMs of waitsMs) {
      if (verdict.verdict !== 'insufficient_credits') return verdict;
      const { leased, available } = await recall(organizationId);
      const required = 'required' in verdict ? Number(verdict.required) : 0;
      if (leased === 0 && available < required) return verdict;
      if (available < required) await sleep(waitMs);
      verdict = await move();
    }
    return verdict;
  };
}
