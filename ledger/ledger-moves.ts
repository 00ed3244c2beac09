/** Moves of the ledger, which share a round trip and a commit (group commit; design §5). */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { JsonObject } from '../domain/json.ts';
import { createBatcher } from '../platform/batch.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';

/** Makes one move `{verb, organizationId, id, …}`. @throws AssertionError if it was invalid */
type LedgerMove = <Verdict>(move: JsonObject, verdicts: z.ZodType<Verdict>) => Promise<Verdict>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/** Time for which a batch waits for a locked account, in milliseconds. */
const lockTimeoutMs = 50;

/** Makes moves over a pool; `name` labels their batches in the metrics. */
export function createLedgerMoves(
  pool: DatabasePool,
  observed: { name: string; metrics: Metrics | undefined },
): LedgerMove {
  const apply = createBatcher<JsonObject, z.infer<typeof answer>>({
    ...observed,
    sizeMax: 200,
    // One batch at a time, because moves of one organization would only wait for each other's lock.
    parallelMax: 1,
    groupOf: ({ organizationId }) => (typeof organizationId === 'string' ? organizationId : ''),
    run: (moves) =>
      pool.oneFirst(
        sql.type(row)`SELECT ledger_apply(${sql.jsonb(moves)}, ${lockTimeoutMs}) AS answers`,
      ),
  });
  return async (move, verdicts) => {
    const answered = await apply(move);
    const parsed = verdicts.safeParse(answered);
    assert(parsed.success, `the ledger answers ${answered.verdict}`);
    return parsed.data;
  };
}
