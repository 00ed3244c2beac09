/** Reads statistics of provider calls: their number, failures and durations. */
import { sql } from 'slonik';
import { z } from 'zod';
import { firstIdAt } from '../domain/ids.ts';
import { chatJobType } from '../domain/job-contract.ts';
import type { DatabasePool } from '../platform/database.ts';

/**
 * Schema of the statistics of a provider, of the whole period or of a step. They include the calls of
 * ended Studio jobs that the gateway accepted in that time.
 */
const providerFigures = z.object({
  provider: z.string(),
  /** Index of the step in which the jobs were accepted; 0 is the oldest. Null for the whole period. */
  step: z.number().nullable(),
  calls: z.number(),
  /**
   * Number of calls that the provider did not accept, that failed or that got no response. Calls
   * whose input the provider rejected are not counted.
   */
  failed: z.number(),
  /**
   * Median time from sending a call until the gateway knew that it had ended, for calls of
   * completed jobs; null if there are no such calls.
   */
  medianSeconds: z.number().nullable(),
  /** 95th percentile of the same times as in `medianSeconds`; null if there are none. */
  slowSeconds: z.number().nullable(),
});
export type ProviderFigures = z.infer<typeof providerFigures>;

/** Period of the statistics in minutes, and the number of its steps. */
export const figuresMinutes = 60;
export const figuresSteps = 12;

/** Creates the function that reads the statistics of each provider with calls in the last hour. */
export function createReadProviderFigures(pool: DatabasePool) {
  return (): Promise<readonly ProviderFigures[]> => {
    const startMs = Date.now() - figuresMinutes * 60_000;
    // Job ids are ordered by time, so the query uses the primary key.
    return pool.any(sql.type(providerFigures)`
      SELECT c.provider,
        least(greatest(width_bucket(extract(epoch FROM j.created_at) * 1000, ${startMs},
          ${startMs + figuresMinutes * 60_000}, ${figuresSteps}) - 1, 0), ${figuresSteps - 1}) AS step,
        count(*) AS calls,
        count(*) FILTER (WHERE c.state <> 'answered' AND (c.state IN ('not_accepted', 'unknown')
          OR j.error->>'code' IN ('PROVIDER_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN')))
          AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY t.seconds) AS "medianSeconds",
        percentile_cont(0.95) WITHIN GROUP (ORDER BY t.seconds) AS "slowSeconds"
      FROM job j JOIN provider_call c ON c.job_id = j.id
        LEFT JOIN LATERAL (SELECT extract(epoch FROM coalesce(c.answered_at,
            (SELECT min(n.received_at) FROM provider_notification n
              WHERE n.job_id = c.job_id AND n.call_index = c.call_index),
            j.completed_at) - c.begun_at)::float8 AS seconds
          WHERE j.status = 'completed' AND c.state IN ('accepted', 'answered')) t ON true
      WHERE j.id >= ${firstIdAt('job', startMs)} AND j.status <> 'open' AND j.type <> ${chatJobType}
      GROUP BY GROUPING SETS ((1), (1, 2))`);
  };
}
