/** Jobs across all organizations, as operators look at them. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { Json } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';

/** A line of the operators' list; amounts in micro-credits, times Unix ms. */
export interface OverseenJob {
  id: string;
  organizationId: string;
  keyId: string;
  type: string;
  model: string | null;
  provider: string;
  status: 'queued' | 'completed' | 'failed' | 'canceled';
  verifying: boolean;
  errorCode: string | null;
  billingState: 'reserved' | 'charged' | 'released';
  reserved: number;
  charged: number | null;
  createdAtMs: number;
  deadlineAtMs: number;
  completedAtMs: number | null;
}

/** What is known of one request to a provider. */
interface OverseenCall {
  index: number;
  routeIndex: number;
  provider: string;
  state: 'begun' | 'refused' | 'accepted' | 'answered' | 'unknown';
  operation: Json;
  begunAtMs: number;
  updatedAtMs: number;
}

/** Which jobs to list; newest first. */
interface OversightListing {
  organizationId: string | undefined;
  status: OverseenJob['status'] | undefined;
  type: string | undefined;
  /** Only jobs before this id. */
  beforeId: string | undefined;
  limit: number;
}

/** Reads over a pool. */
export interface JobOversight {
  list: (listing: OversightListing) => Promise<OverseenJob[]>;
  /** Null when there is no such job. */
  find: (jobId: string) => Promise<OverseenJob | null>;
  calls: (jobId: string) => Promise<OverseenCall[]>;
}

const columns = sql.fragment`j.id, j.organization_id AS "organizationId", j.key_id AS "keyId", j.type,
  j.model, j.provider, j.status, j.verifying, j.error->>'code' AS "errorCode",
  r.state AS "billingState", r.amount AS reserved, r.charged, j.created_at AS "createdAtMs",
  j.deadline_at AS "deadlineAtMs", j.completed_at AS "completedAtMs"`;

const row = z.custom<OverseenJob>();

/** See `JobOversight`. */
export function createJobOversight(pool: DatabasePool): JobOversight {
  return {
    async list(listing) {
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
      const rows = await pool.any(sql.type(row)`
        SELECT ${columns} FROM job j JOIN reservation r ON r.id = j.id
        WHERE ${sql.join(where, sql.fragment` AND `)}
        ORDER BY j.id DESC LIMIT ${listing.limit}`);
      return [...rows];
    },
    find: (jobId) =>
      pool.maybeOne(sql.type(row)`
        SELECT ${columns} FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = ${jobId}`),
    async calls(jobId) {
      const rows = await pool.any(sql.type(z.custom<OverseenCall>())`
        SELECT call_index AS index, route_index AS "routeIndex", provider, state, operation,
          begun_at AS "begunAtMs", updated_at AS "updatedAtMs"
        FROM provider_call WHERE job_id = ${jobId} ORDER BY call_index`);
      return [...rows];
    },
  };
}
