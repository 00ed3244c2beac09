/** Lists the provider calls of a job for operators. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

/** Schema of a provider call. */
export const jobCall = z.object({
  index: z.int(),
  routeIndex: z.int(),
  provider: z.string(),
  /** Endpoint of the provider, for example fal's endpoint id; null if it was not recorded. */
  providerEndpoint: z.string().nullable(),
  state: z.enum(['waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown']),
  operation: z.json(),
  providerRequestId: z.string().nullable(),
  /**
   * Attempts that the provider did not accept, oldest first. The call was sent again after each
   * attempt except possibly the last.
   */
  unacceptedSubmits: z.array(
    z.object({
      routeIndex: z.int(),
      provider: z.string(),
      providerRequestId: z.string().nullable(),
      message: z.string(),
      failedAtMs: z.number(),
    }),
  ),
  /** Time at which the call first waited for a paused provider; null if it never waited. */
  pausedAtMs: z.number().nullable(),
  /** Number of times that the call was sent; repeated only if it was not accepted. */
  attempts: z.int(),
  begunAtMs: z.number(),
  acceptedAtMs: z.number().nullable(),
  answeredAtMs: z.number().nullable(),
  notifiedAtMs: z.number().nullable(),
  updatedAtMs: z.number(),
});
export type JobCall = z.infer<typeof jobCall>;

/** Creates the function that lists the calls of a job, ordered by call index. */
export function createReadCalls(pool: DatabasePool) {
  return (jobId: string): Promise<readonly JobCall[]> =>
    pool.any(sql.type(jobCall)`
      SELECT c.call_index AS index, c.route_index AS "routeIndex", c.provider, c.provider_endpoint AS "providerEndpoint", c.state,
        c.operation, c.provider_request_id AS "providerRequestId", c.attempts,
        c.unaccepted_submits AS "unacceptedSubmits", c.paused_at AS "pausedAtMs",
        c.begun_at AS "begunAtMs", c.accepted_at AS "acceptedAtMs", c.answered_at AS "answeredAtMs",
        (SELECT min(n.received_at) FROM provider_notification n
          WHERE n.job_id = c.job_id AND n.call_index = c.call_index) AS "notifiedAtMs",
        c.updated_at AS "updatedAtMs"
      FROM provider_call c
      WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
}
