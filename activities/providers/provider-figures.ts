/** How providers did recently: failures and times of the calls of recent jobs. */
import { sql } from 'slonik';
import { z } from 'zod';
import { firstIdAt } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';

/** Calls of a provider for the jobs that were accepted in the last minutes and have ended. */
const providerFigures = z.object({
  provider: z.string(),
  calls: z.number(),
  /** Refused, failed, never answered. What it declined for the input does not count. */
  failed: z.number(),
  /** From sending a call to hearing that it is done, of completed jobs; null when there is none. */
  medianSeconds: z.number().nullable(),
  slowSeconds: z.number().nullable(),
});
/** See `providerFigures`; `slowSeconds` is the 95th percentile. */
export type ProviderFigures = z.infer<typeof providerFigures>;

/** Figures of the last so many minutes, of the providers that were called. */
export type ReadProviderFigures = (minutes: number) => Promise<readonly ProviderFigures[]>;

/** See `ReadProviderFigures`. */
export function createReadProviderFigures(pool: DatabasePool): ReadProviderFigures {
  return (minutes) =>
    // Ids of jobs are ordered by time: no other index is needed.
    pool.any(sql.type(providerFigures)`
      SELECT c.provider, count(*) AS calls,
        count(*) FILTER (WHERE c.state <> 'answered' AND (c.state IN ('refused', 'unknown')
          OR j.error->>'code' IN ('PROVIDER_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN')))
          AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY t.seconds) AS "medianSeconds",
        percentile_cont(0.95) WITHIN GROUP (ORDER BY t.seconds) AS "slowSeconds"
      FROM job j JOIN provider_call c ON c.job_id = j.id
        LEFT JOIN LATERAL (SELECT extract(epoch FROM coalesce(c.answered_at,
            (SELECT min(n.received_at) FROM notification n
              WHERE n.job_id = c.job_id AND n.call_index = c.call_index),
            j.completed_at) - c.begun_at)::float8 AS seconds
          WHERE j.status = 'completed' AND c.state IN ('accepted', 'answered')) t ON true
      WHERE j.id >= ${firstIdAt('job', Date.now() - minutes * 60_000)} AND j.status <> 'queued'
      GROUP BY c.provider`);
}
