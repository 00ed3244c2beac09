/** What is known of a job's requests to providers: what its timeline and its story are made from. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { lateVerdict } from './late-outcomes.ts';

/** A request to a provider; times are Unix ms. */
const jobCall = z.object({
  index: z.number(),
  routeIndex: z.number(),
  provider: z.string(),
  /** The provider's name of what was asked of it; null when it is not known. */
  endpoint: z.string().nullable(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: z.json(),
  /** The provider's own id of it. */
  providerRequestId: z.string().nullable(),
  /** How often it was sent: again only after the provider certainly had not taken it. */
  attempts: z.number(),
  begunAtMs: z.number(),
  acceptedAtMs: z.number().nullable(),
  answeredAtMs: z.number().nullable(),
  notifiedAtMs: z.number().nullable(),
  updatedAtMs: z.number(),
  /** What was learnt after the job had been released. */
  late: lateVerdict.nullable(),
});
/** See `jobCall`. */
export type JobCall = z.infer<typeof jobCall>;

/** The calls of a job in their order. */
export type ReadCalls = (jobId: string) => Promise<readonly JobCall[]>;

/** See `ReadCalls`. */
export function createReadCalls(pool: DatabasePool): ReadCalls {
  return (jobId) =>
    pool.any(sql.type(jobCall)`
      SELECT c.call_index AS index, c.route_index AS "routeIndex", c.provider, c.endpoint, c.state,
        c.operation, c.operation->>'id' AS "providerRequestId", c.attempts,
        c.begun_at AS "begunAtMs", c.accepted_at AS "acceptedAtMs", c.answered_at AS "answeredAtMs",
        (SELECT min(n.received_at) FROM notification n
          WHERE n.job_id = c.job_id AND n.call_index = c.call_index) AS "notifiedAtMs",
        c.updated_at AS "updatedAtMs",
        CASE WHEN o.job_id IS NOT NULL THEN jsonb_build_object('verdict', o.verdict,
          'foundBy', o.found_by, 'foundAtMs', unix_ms(o.found_at)) END AS late
      FROM provider_call c
        LEFT JOIN late_outcome o ON o.job_id = c.job_id AND o.call_index = c.call_index
      WHERE c.job_id = ${jobId} ORDER BY c.call_index`);
}
