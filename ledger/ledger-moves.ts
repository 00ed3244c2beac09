/**
 * Applies ledger moves in batches: the moves of a batch share one round trip and one commit (group
 * commit). A move is one change of an account: reserve, settle, refund or grant.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { JsonObject } from '../domain/json.ts';
import { createBatcher } from '../platform/batch.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';

/**
 * Applies a move `{verb, organizationId, id, …}` and returns its verdict.
 * @throws AssertionError if the verdict is not one of `verdicts`
 */
type LedgerMove = <Verdict>(move: JsonObject, verdicts: z.ZodType<Verdict>) => Promise<Verdict>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/** How long a batch waits for a locked account, in milliseconds. */
const lockTimeoutMs = 50;

/** Creates the function that applies moves; `name` labels the batches in the metrics. */
export function createLedgerMoves(
  pool: DatabasePool,
  observed: { name: string; metrics: Metrics | undefined },
): LedgerMove {
  const apply = createBatcher<JsonObject, z.infer<typeof answer>>({
    ...observed,
    sizeMax: 200,
    // A second batch could contain moves of the same organization, and would wait for its lock.
    parallelMax: 1,
    groupOf: ({ organizationId }) => (typeof organizationId === 'string' ? organizationId : ''),
    run: (moves) =>
      pool.oneFirst(
        sql.type(row)`SELECT ledger_apply(${sql.jsonb(moves)}, ${lockTimeoutMs}) AS answers`,
      ),
  });
  return async (move, verdicts) => {
    const result = await apply(move);
    const parsed = verdicts.safeParse(result);
    assert(parsed.success, `unexpected ledger verdict: ${result.verdict}`);
    return parsed.data;
  };
}
