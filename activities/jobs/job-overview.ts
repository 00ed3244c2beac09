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
