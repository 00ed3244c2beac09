/** Jobs across all organizations, as operators look at them. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';

/** A line of the operators' list; amounts in micro-credits, times Unix ms. */
const overseenJob = z.object({
  id: z.string(),
  organizationId: z.string(),
  keyId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  provider: z.string(),
  status: z.enum(['queued', 'completed', 'failed', 'canceled']),
  verifying: z.boolean(),
  errorCode: z.string().nullable(),
  billingState: z.enum(['reserved', 'charged', 'released']),
  reserved: z.number(),
  charged: z.number().nullable(),
  createdAtMs: z.number(),
  deadlineAtMs: z.number(),
  completedAtMs: z.number().nullable(),
});
/** See `overseenJob`. */
export type OverseenJob = z.infer<typeof overseenJob>;

/** What is known of one request to a provider. */
const overseenCall = z.object({
  index: z.number(),
  routeIndex: z.number(),
  provider: z.string(),
  /** The provider's name of what was asked of it; null when it is not known. */
  endpoint: z.string().nullable(),
  state: z.enum(['waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown']),
  operation: z.json(),
  /** The provider's own id of it. */
  providerRequestId: z.string().nullable(),
  /** How often it was sent. */
  attempts: z.number(),
  begunAtMs: z.number(),
  updatedAtMs: z.number(),
  /** What was learnt after the job had been released. */
  late: z
    .object({
      verdict: z.string(),
      foundBy: z.enum(['notification', 'follow_up', 'operator']),
      foundAtMs: z.number(),
    })
    .nullable(),
});
/** See `overseenCall`. */
export type OverseenCall = z.infer<typeof overseenCall>;

/** Who asked for a job. */
const jobCaller = z.object({
  organizationName: z.string(),
  organizationStatus: z.enum(['active', 'suspended']),
  keyName: z.string(),
  keyPrefix: z.string(),
  keyRevokedAtMs: z.number().nullable(),
  userId: z.string(),
  userName: z.string(),
});
/** See `jobCaller`. */
export type JobCaller = z.infer<typeof jobCaller>;

/** Which jobs to list; newest first. */
interface OversightListing {
  organizationId?: string | undefined;
  status?: OverseenJob['status'] | undefined;
  type?: string | undefined;
  /** Only jobs before this id. */
  beforeId?: string | undefined;
  limit: number;
}

/** Reads over a pool. */
export interface JobOverview {
  list: (listing: OversightListing) => Promise<readonly OverseenJob[]>;
  /** Null when there is no such job. */
  find: (jobId: string) => Promise<OverseenJob | null>;
  calls: (jobId: string) => Promise<readonly OverseenCall[]>;
  caller: (job: Pick<OverseenJob, 'keyId'>) => Promise<JobCaller>;
}

const columns = sql.fragment`j.id, j.organization_id AS "organizationId", j.key_id AS "keyId", j.type,
  j.model, j.provider, j.status, j.verifying, j.error->>'code' AS "errorCode",
  r.state AS "billingState", r.amount AS reserved, r.charged, j.created_at AS "createdAtMs",
  j.deadline_at AS "deadlineAtMs", j.completed_at AS "completedAtMs"`;

/** See `JobOverview`. */
export function createJobOverview(pool: DatabasePool): JobOverview {
  return {
    list(listing) {
      const where = [
        sql.fragment`true`,
        ...(listing.organizationId === undefined
          ? []
          : [sql.fragment`j.organization_id = ${listing.organizationId}`]),
        ...(listing.status === undefined ? [] : [sql.fragment`j.status = ${listing.status}`]),
        ...(listing.type === undefined ? [] : [sql.fragment`j.type = ${listing.type}`]),
        // Ids of jobs are ordered by time.
        ...(listing.beforeId === undefined ? [] : [sql.fragment`j.id < ${listing.beforeId}`]),
      ];
      return pool.any(sql.type(overseenJob)`
        SELECT ${columns} FROM job j JOIN reservation r ON r.id = j.id
        WHERE ${sql.join(where, sql.fragment` AND `)}
        ORDER BY j.id DESC LIMIT ${listing.limit}`);
    },
    find: (jobId) =>
      pool.maybeOne(sql.type(overseenJob)`
        SELECT ${columns} FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = ${jobId}`),
    calls: (jobId) =>
      pool.any(sql.type(overseenCall)`
        SELECT c.call_index AS index, c.route_index AS "routeIndex", c.provider, c.endpoint,
          c.state, c.operation, c.operation->>'id' AS "providerRequestId", c.attempts, c.begun_at AS "begunAtMs", c.updated_at AS "updatedAtMs",
          CASE WHEN o.job_id IS NOT NULL THEN jsonb_build_object('verdict', o.verdict,
            'foundBy', o.found_by, 'foundAtMs', unix_ms(o.found_at)) END AS late
        FROM provider_call c
          LEFT JOIN late_outcome o ON o.job_id = c.job_id AND o.call_index = c.call_index
        WHERE c.job_id = ${jobId} ORDER BY c.call_index`),
    caller: ({ keyId }) =>
      pool.one(sql.type(jobCaller)`
        SELECT o.name AS "organizationName", o.status AS "organizationStatus", k.name AS "keyName",
          k.prefix AS "keyPrefix", k.revoked_at AS "keyRevokedAtMs", m.id AS "userId",
          m.name AS "userName"
        FROM api_key k JOIN organization o ON o.id = k.organization_id
          JOIN member m ON m.id = k.member_id
        WHERE k.id = ${keyId}`),
  };
}
