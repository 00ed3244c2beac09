/** Reads of jobs: what polls, lists and answers are made from. Phases are derived, never written. */
import { buffer } from 'node:stream/consumers';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { Json } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { jobRow, type Documents, type JobRecord } from '../../jobs/job-record.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import type { Storage } from '../storage/storage.ts';
import { recordConditions, type RecordFilter } from './record-conditions.ts';

const idRow = z.object({ id: z.string() });

export type { JobRecord };

/** Which jobs to list; newest first. */
export interface JobListing extends RecordFilter {
  /** `open`: queued or in progress. */
  status?: 'open' | 'queued' | 'in_progress' | 'completed' | 'failed' | 'canceled' | undefined;
  type?: string | undefined;
  /** Only jobs before this one. */
  beforeId?: string | undefined;
  limit: number;
}

/** Reads over a pool. */
export interface JobReads {
  /** Null when this organization has no such job. */
  read: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  list: (organizationId: string, listing: JobListing) => Promise<readonly JobRecord[]>;
  /** Those of these jobs that the organization has. */
  some: (organizationId: string, jobIds: readonly string[]) => Promise<readonly JobRecord[]>;
  /** Which of these jobs have ended. */
  ended: (jobIds: readonly string[]) => Promise<readonly string[]>;
}

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

/** See `JobReads`; from the storage come the documents of a single job. */
export function createJobReads(pool: DatabasePool, storage?: Pick<Storage, 'open'>): JobReads {
  return {
    async read(organizationId, jobId) {
      const job = await pool.maybeOne(
        sql.type(jobRow)`${select(
          sql.fragment`x.organization_id = ${organizationId} AND x.id = ${jobId}`,
        )}`,
      );
      if (!job?.outputs || !storage) return job;
      return { ...job, documents: await loadDocuments(storage, job.outputs) };
    },
    list(organizationId, listing) {
      const where = [...recordConditions(organizationId, listing), ...conditions(listing)];
      return pool.any(sql.type(
        jobRow,
      )`${select(sql.fragment`${sql.join(where, sql.fragment` AND `)}`)}
        ORDER BY x.created_at DESC, x.id DESC LIMIT ${listing.limit}`);
    },
    some: (organizationId, jobIds) =>
      pool.any(
        sql.type(jobRow)`${select(sql.fragment`x.organization_id = ${organizationId}
          AND x.id = ANY(${sql.array([...jobIds], 'text')})`)} ORDER BY x.id`,
      ),
    ended: (jobIds) =>
      pool.anyFirst(sql.type(idRow)`
        SELECT id FROM job WHERE id = ANY(${sql.array([...jobIds], 'text')}) AND status <> 'queued'`),
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

/** JSON artifacts: results too long for a row or a workflow's history. One that is gone is left out. */
async function loadDocuments(
  storage: Pick<Storage, 'open'>,
  outputs: CallOutputs[],
): Promise<Documents> {
  const keys = outputs
    .flatMap((output) => output.artifacts)
    .filter((artifact) => artifact.contentType === 'application/json')
    .map((artifact) => artifact.storageKey);
  const loaded = await Promise.all(
    keys.map(async (key): Promise<[string, Json][]> => {
      const object = await storage.open(key);
      return object ? [[key, JSON.parse((await buffer(object.stream)).toString('utf8'))]] : [];
    }),
  );
  return new Map(loaded.flat());
}
