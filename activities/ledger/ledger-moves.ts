/** Moves of the ledger (platform/sql/ledger.sql), in batches: many at once share a round trip and a commit. */
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
