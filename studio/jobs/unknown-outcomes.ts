/** Lists jobs whose credits were released although the provider never reported an outcome. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { providerOperation } from '../../providers/provider.ts';

/** Schema of a call of a listed job. */
export const listedCall = z.object({
  index: z.int(),
  provider: z.string(),
  state: z.string(),
  operation: providerOperation.nullable(),
  /** Time of the first notification after the end of the workflow; null if none arrived. */
  lateNotificationAtMs: z.number().nullable(),
});

/** Schema of a job whose credits were released although its outcome is unknown. */
export const jobWithUnknownOutcome = z.object({
  jobId: z.string(),
  organizationId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  errorCode: z.string(),
  creditsMicro: z.number(),
  releasedAtMs: z.number(),
  calls: z.array(listedCall),
});
type JobWithUnknownOutcome = z.infer<typeof jobWithUnknownOutcome>;

/**
 * Schema of two numbers of jobs. `verifying`: jobs whose outcome is being verified. `released`:
 * jobs whose credits were released although their outcome is unknown.
 */
export const outcomeCounts = z.object({ verifying: z.int(), released: z.int() });

// The condition is that of the index `job_without_outcome`, so that Postgres uses the index.
const hasUnknownOutcome = sql.fragment`j.error->>'code' IN ('OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST')`;

/** Creates the functions that read jobs whose credits were released with an unknown outcome. */
export function createUnknownOutcomes(pool: DatabasePool) {
  return {
    /** Lists the jobs, newest first. */
    list: (page: {
      beforeId: string | undefined;
      limit: number;
    }): Promise<readonly JobWithUnknownOutcome[]> => {
      const before = page.beforeId ?? null;
      return pool.any(sql.type(jobWithUnknownOutcome)`
        SELECT j.id AS "jobId", j.organization_id AS "organizationId", j.type, j.model,
          j.error->>'code' AS "errorCode", r.amount AS "creditsMicro",
          j.completed_at AS "releasedAtMs",
          coalesce((SELECT jsonb_agg(jsonb_build_object('index', c.call_index,
              'provider', c.provider, 'state', c.state, 'operation', c.operation,
              'lateNotificationAtMs', (SELECT unix_ms(min(n.received_at)) FROM provider_notification n
                WHERE n.job_id = c.job_id AND n.call_index = c.call_index AND n.state = 'late'))
              ORDER BY c.call_index)
            FROM provider_call c WHERE c.job_id = j.id), '[]') AS calls
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE ${hasUnknownOutcome} AND (${before}::text IS NULL OR j.id < ${before}::text)
        ORDER BY j.id DESC LIMIT ${page.limit}`);
    },
    counts: () =>
      pool.one(sql.type(outcomeCounts)`SELECT
        (SELECT count(*) FROM reservation r JOIN job j ON j.id = r.id
          WHERE r.state = 'reserved' AND j.verifying) AS verifying,
        (SELECT count(*) FROM job j WHERE ${hasUnknownOutcome}) AS released`),
  };
}
