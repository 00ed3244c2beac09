/** Applies ledger operations in batches, which share a round trip and a commit (group commit). */
import { sql } from 'slonik';
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import { toStorable, type JsonObject } from '../domain/json.ts';
import { createBatcher } from '../platform/batch.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';

/**
 * Applies a ledger operation `{verb, organizationId, id, …}` and returns its result.
 * @throws AssertionError if the result does not match the schema
 */
type ApplyOperation = <Result>(operation: JsonObject, schema: z.ZodType<Result>) => Promise<Result>;

const answer = z.looseObject({ verdict: z.string() });
const row = z.object({ answers: z.array(answer) });

/** Time for which a batch waits for a locked account, in milliseconds. */
const lockTimeoutMs = 50;

/**
 * Creates the function that applies ledger operations. The metrics label its batches with `name`.
 */
export function createApplyOperation(
  pool: DatabasePool,
  observed: { name: string; metrics: Metrics | undefined },
): ApplyOperation {
  const applyInBatch = createBatcher<JsonObject, z.infer<typeof answer>>({
    ...observed,
    sizeMax: 200,
    // Two parallel batches could contain operations of the same organization; the second would wait
    // until the first unlocks the account.
    parallelMax: 1,
    getGroup: ({ organizationId }) => (typeof organizationId === 'string' ? organizationId : ''),
    run: (operations) =>
      pool.oneFirst(
        sql.type(
          row,
        )`SELECT ledger_apply(${sql.jsonb(toStorable(operations))}, ${lockTimeoutMs}) AS answers`,
      ),
  });
  return async (operation, schema) => {
    const result = await applyInBatch(operation);
    const parsed = schema.safeParse(result);
    assert(parsed.success, `unexpected result of a ledger operation: ${result.verdict}`);
    return parsed.data;
  };
}
