/**
 * Credits that a process has leased for chats to come are not spent: whoever finds too little asks for
 * them back, and tries again, before he refuses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

/** Runs a move, again after leases were given back where it found too little. */
export type AfterRecall = <Verdict extends { verdict: string }>(
  organizationId: string,
  move: () => Promise<Verdict>,
) => Promise<Verdict>;

/** A holder answers within milliseconds; one that does not is dead or busy, and is not waited for. */
const waitsMs = [5, 15, 30, 60, 120];

const answerRow = z.object({ answer: z.object({ leased: z.number(), available: z.number() }) });

/** See the file's head. */
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
