/** Reads of jobs: what polls, lists and answers are made from. Phases are derived, never written. */
import { buffer } from 'node:stream/consumers';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { Json } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { jobRow, type Documents, type JobRecord } from '../../jobs/job-record.ts';
import type { CallOutputs } from '../../jobs/job-plan.ts';
import type { Storage } from '../storage/storage.ts';

const idRow = z.object({ id: z.string() });

export type { JobRecord };

/** Which jobs to list; newest first. */
export interface JobListing {
  status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'canceled' | undefined;
  type: string | undefined;
  /** Only jobs made after this, Unix ms. */
  afterMs: number | undefined;
  /** Only jobs before this one. */
  beforeId: string | undefined;
  limit: number;
}

/** Reads over a pool. */
export interface JobReads {
  /** Null when this organization has no such job. */
  read: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  list: (organizationId: string, listing: JobListing) => Promise<JobRecord[]>;
  /** Which of these jobs have ended. */
  ended: (jobIds: readonly string[]) => Promise<string[]>;
}

const select = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT j.id, j.type, j.model, j.status, j.verifying, j.request, j.outputs, j.error, j.request_id,
    j.created_at, j.deadline_at, j.completed_at, c.started_at, c.call_states, c.progress,
    r.state AS billing_state, r.amount AS reserved, r.charged, a.posted - a.reserved AS available
  FROM job j
    JOIN reservation r ON r.id = j.id
    JOIN account a ON a.organization_id = j.organization_id
    LEFT JOIN LATERAL (SELECT min(begun_at) FILTER (WHERE state <> 'waiting') AS started_at, array_agg(state) AS call_states,
        jsonb_agg(progress) FILTER (WHERE progress IS NOT NULL) AS progress
      FROM provider_call WHERE job_id = j.id) c ON true
  WHERE ${where}`;

/** See `JobReads`; from the storage come the documents of a single job. */
export function createJobReads(pool: DatabasePool, storage?: Pick<Storage, 'open'>): JobReads {
  return {
    async read(organizationId, jobId) {
      const job = await pool.maybeOne(
        sql.type(jobRow)`${select(
          sql.fragment`j.organization_id = ${organizationId} AND j.id = ${jobId}`,
        )}`,
      );
      if (!job?.outputs || !storage) return job;
      return { ...job, documents: await loadDocuments(storage, job.outputs) };
    },
    async list(organizationId, listing) {
      const where = sql.join(
        [sql.fragment`j.organization_id = ${organizationId}`, ...conditions(listing)],
        sql.fragment` AND `,
      );
      const rows = await pool.any(sql.type(jobRow)`${select(sql.fragment`${where}`)}
        ORDER BY j.created_at DESC, j.id DESC LIMIT ${listing.limit}`);
      return [...rows];
    },
    async ended(jobIds) {
      const ids = await pool.anyFirst(sql.type(idRow)`
        SELECT id FROM job WHERE id = ANY(${sql.array([...jobIds], 'text')}) AND status <> 'queued'`);
      return [...ids];
    },
  };
}

function conditions(listing: JobListing): FragmentSqlToken[] {
  const begun = sql.fragment`EXISTS (SELECT FROM provider_call p
    WHERE p.job_id = j.id AND p.state <> 'waiting')`;
  const found: FragmentSqlToken[] = [];
  if (listing.status === 'queued') found.push(sql.fragment`j.status = 'queued' AND NOT ${begun}`);
  else if (listing.status === 'in_progress') {
    found.push(sql.fragment`j.status = 'queued' AND ${begun}`);
  } else if (listing.status) found.push(sql.fragment`j.status = ${listing.status}`);
  if (listing.type !== undefined) found.push(sql.fragment`j.type = ${listing.type}`);
  if (listing.afterMs !== undefined) {
    found.push(sql.fragment`j.created_at > to_timestamp(${listing.afterMs / 1000})`);
  }
  if (listing.beforeId !== undefined) {
    found.push(sql.fragment`(j.created_at, j.id) <
      (SELECT b.created_at, b.id FROM job b WHERE b.id = ${listing.beforeId}
        AND b.organization_id = j.organization_id)`);
  }
  return found;
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
