/** Reads of jobs: what polls, lists and answers are made from. Phases are derived, never written. */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { callOutputs } from '../../jobs/call-outputs.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import type { Documents, JobRecord } from '../../studio/job-record.ts';
import { recordConditions, type RecordFilter } from './record-conditions.ts';

const idRow = z.object({ id: z.string() });

export type { JobRecord };

/** Which jobs to list; newest first. */
export interface JobListing extends RecordFilter {
  /** `open`: queued or in progress. */
  status: 'open' | 'queued' | 'in_progress' | 'completed' | 'failed' | 'canceled' | undefined;
  type: string | undefined;
  /** Only jobs before this one. */
  beforeId: string | undefined;
  limit: number;
}

/** Reads over a pool. */
export interface JobReads {
  /** Null when this organization has no such job. */
  read: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  list: (organizationId: string, listing: JobListing) => Promise<JobRecord[]>;
  /** Those of these jobs that the organization has. */
  some: (organizationId: string, jobIds: readonly string[]) => Promise<readonly JobRecord[]>;
  /** Which of these jobs have ended. */
  ended: (jobIds: readonly string[]) => Promise<string[]>;
}

const row: z.ZodType<JobRecord> = z.object({
  id: z.string(),
  key_id: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  status: z.enum(['queued', 'completed', 'failed', 'canceled']),
  verifying: z.boolean(),
  request: z.record(z.string(), z.json()),
  metadata: z.record(z.string(), z.string()).nullable(),
  outputs: z.array(callOutputs).nullable(),
  error: z.object({ code: z.enum(keysOf(errorTable)), message: z.string() }).nullable(),
  request_id: z.string(),
  created_at: z.number(),
  deadline_at: z.number(),
  completed_at: z.number().nullable(),
  media_deleted_at: z.number().nullable(),
  started_at: z.number().nullable(),
  call_states: z.array(z.string()).nullable(),
  progress: z.json(),
  billing_state: z.enum(['reserved', 'charged', 'released']),
  reserved: z.number(),
  charged: z.number().nullable(),
  available: z.number(),
});

const select = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT x.id, x.key_id, x.type, x.model, x.status, x.verifying, x.request, x.metadata, x.outputs,
    x.error, x.request_id, x.created_at, x.deadline_at, x.completed_at, x.media_deleted_at,
    c.started_at, c.call_states, c.progress,
    r.state AS billing_state, r.amount AS reserved, r.charged, a.posted - a.reserved AS available
  FROM job x
    JOIN reservation r ON r.id = x.id
    JOIN account a ON a.organization_id = x.organization_id
    LEFT JOIN LATERAL (SELECT min(begun_at) FILTER (WHERE state <> 'waiting') AS started_at, array_agg(state) AS call_states,
        jsonb_agg(progress) FILTER (WHERE progress IS NOT NULL) AS progress
      FROM provider_call WHERE job_id = x.id) c ON true
  WHERE ${where}`;

/** See `JobReads`; `load` reads the documents of a single job. */
export function createJobReads(
  pool: DatabasePool,
  load?: (outputs: CallOutputs[]) => Promise<Documents>,
): JobReads {
  return {
    async read(organizationId, jobId) {
      const job = await pool.maybeOne(
        sql.type(row)`${select(
          sql.fragment`x.organization_id = ${organizationId} AND x.id = ${jobId}`,
        )}`,
      );
      return job?.outputs && load ? { ...job, documents: await load(job.outputs) } : job;
    },
    async list(organizationId, listing) {
      const where = [...recordConditions(organizationId, listing), ...conditions(listing)];
      const rows = await pool.any(sql.type(
        row,
      )`${select(sql.fragment`${sql.join(where, sql.fragment` AND `)}`)}
        ORDER BY x.created_at DESC, x.id DESC LIMIT ${listing.limit}`);
      return [...rows];
    },
    some: (organizationId, jobIds) =>
      pool.any(
        sql.type(row)`${select(sql.fragment`x.organization_id = ${organizationId}
          AND x.id = ANY(${sql.array([...jobIds], 'text')})`)} ORDER BY x.id`,
      ),
    async ended(jobIds) {
      const ids = await pool.anyFirst(sql.type(idRow)`
        SELECT id FROM job WHERE id = ANY(${sql.array([...jobIds], 'text')}) AND status <> 'queued'`);
      return [...ids];
    },
  };
}

function conditions({ status, type, beforeId }: JobListing): FragmentSqlToken[] {
  const found = status === undefined ? [] : statusConditions(status);
  if (type !== undefined) found.push(sql.fragment`x.type = ${type}`);
  if (beforeId !== undefined) {
    found.push(sql.fragment`(x.created_at, x.id) <
      (SELECT b.created_at, b.id FROM job b WHERE b.id = ${beforeId}
        AND b.organization_id = x.organization_id)`);
  }
  return found;
}

/** With what the status says of columns that an index is over. */
function statusConditions(status: NonNullable<JobListing['status']>): FragmentSqlToken[] {
  const begun = sql.fragment`EXISTS (SELECT FROM provider_call p
    WHERE p.job_id = x.id AND p.state <> 'waiting')`;
  if (status === 'open' || status === 'queued' || status === 'in_progress') {
    const open = sql.fragment`x.status = 'queued' AND r.state = 'reserved'`;
    if (status === 'open') return [open];
    return [open, status === 'queued' ? sql.fragment`NOT ${begun}` : begun];
  }
  const ended = sql.fragment`x.status = ${status}`;
  return status === 'completed' ? [ended] : [ended, sql.fragment`x.error IS NOT NULL`];
}
