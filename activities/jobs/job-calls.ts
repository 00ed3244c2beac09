/** What is known of a job's requests to providers, and of its webhook: what its timeline is made from. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

/** A request to a provider; times are Unix ms. */
const timedCall = z.object({
  index: z.number(),
  provider: z.string(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  /** How often it was sent: again only after the provider certainly had not taken it. */
  attempts: z.number(),
  /** The provider's own id of it. */
  providerRequestId: z.string().nullable(),
  begunAtMs: z.number(),
  acceptedAtMs: z.number().nullable(),
  answeredAtMs: z.number().nullable(),
  notifiedAtMs: z.number().nullable(),
});
/** See `timedCall`. */
export type TimedCall = z.infer<typeof timedCall>;

/** The calls of a job in their order. */
export type ReadCalls = (jobId: string) => Promise<readonly TimedCall[]>;

/** See `ReadCalls`. */
export function createReadCalls(pool: DatabasePool): ReadCalls {
  return (jobId) =>
    pool.any(sql.type(timedCall)`
      SELECT c.call_index AS index, c.provider, c.state, c.attempts,
        c.operation->>'id' AS "providerRequestId", c.begun_at AS "begunAtMs",
        c.accepted_at AS "acceptedAtMs", c.answered_at AS "answeredAtMs",
        (SELECT min(n.received_at) FROM notification n
          WHERE n.job_id = c.job_id AND n.call_index = c.call_index) AS "notifiedAtMs"
      FROM provider_call c WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
}
