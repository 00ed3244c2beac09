/**
 * Queries that read jobs for polling, lists and responses. The phase of a job is derived from its
 * rows, never stored.
 */
import { buffer } from 'node:stream/consumers';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { Json } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { jobRow, type Documents, type JobRecord } from '../job-record.ts';
import { planVersion, type CallOutputs, type JobPlan } from '../job-plan.ts';
import type { Storage } from '../../storage/storage.ts';
import { recordConditions, type RecordFilter } from '../../platform/record-lists.ts';
import { matchesSearch } from './job-search.ts';

const idRow = z.object({ id: z.string() });
const countRow = z.object({ count: z.number() });

const planHead = z.looseObject({ planVersion: z.literal(planVersion) });
/** Schema of the plan that `reserve` stored; null if the plan has another version. */
const planRow = z.object({
  plan: z
    .custom<Omit<JobPlan, 'request'>>((plan) => planHead.safeParse(plan).success)
    .nullable()
    .catch(null),
});

export type { JobRecord };

/** Filter of jobs. */
interface JobFilter extends RecordFilter {
  /** `open`: queued or in progress. */
  status?: 'open' | 'queued' | 'in_progress' | 'completed' | 'failed' | 'canceled' | undefined;
  type?: string | undefined;
  provider?: string | undefined;
  errorCode?: string | undefined;
  /** Only jobs that match this id or text (job-search.ts). */
  search?: string | undefined;
}

/** Filter and page of a list of jobs, newest first. */
interface JobListing extends JobFilter {
  /** Only jobs before this id. */
  beforeId?: string | undefined;
  limit: number;
}

const select = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT x.id, x.organization_id, x.key_id, x.type, x.model, x.provider, x.status, x.verifying,
    x.request, x.metadata, x.outputs, x.error, x.request_id, x.created_at, x.deadline_at, x.completed_at, x.media_deleted_at,
    c.started_at, c.call_states, c.queue_position, (x.plan->>'typicalSeconds')::float8 AS typical_seconds,
    r.state AS billing_state, r.amount AS reserved, r.charged,
    coalesce(r.refunded, 0) AS refunded, a.posted - a.reserved AS available
  FROM job x
    JOIN reservation r ON r.id = x.id
    JOIN account a ON a.organization_id = x.organization_id
    LEFT JOIN LATERAL (SELECT min(p.begun_at) FILTER (WHERE p.state <> 'waiting') AS started_at,
        array_agg(CASE WHEN p.state IN ('begun', 'accepted') AND (p.progress->>'state' = 'storing'
            OR EXISTS (SELECT FROM provider_notification n
              WHERE n.job_id = p.job_id AND n.call_index = p.call_index))
          THEN 'storing' ELSE p.state END) AS call_states,
        max((p.progress->>'queuePosition')::integer) FILTER (WHERE p.progress->>'state' = 'queued')
          AS queue_position
      FROM provider_call p WHERE p.job_id = x.id) c ON true
  WHERE ${where}`;

/**
 * Creates the functions that read an organization's jobs. `read` also reads the JSON artifacts of
 * the job, if `storage` is given.
 */
export function createJobReads(pool: DatabasePool, storage?: Pick<Storage, 'open'>) {
  return {
    /** Reads a job; null if the organization has no such job. */
    read: async (organizationId: string, jobId: string): Promise<JobRecord | null> => {
      const job = await pool.maybeOne(
        sql.type(jobRow)`${select(
          sql.fragment`x.organization_id = ${organizationId} AND x.id = ${jobId}`,
        )}`,
      );
      if (!job?.outputs || !storage) return job;
      return { ...job, documents: await loadDocuments(storage, job.outputs) };
    },
    list(organizationId: string, listing: JobListing): Promise<readonly JobRecord[]> {
      const where = [...conditions(organizationId, listing), ...pageConditions(listing)];
      return pool.any(sql.type(
        jobRow,
      )`${select(sql.fragment`${sql.join(where, sql.fragment` AND `)}`)}
        ORDER BY x.created_at DESC, x.id DESC LIMIT ${listing.limit}`);
    },
    /** Counts the jobs that match a filter. Stops counting at `countMax`. */
    count(organizationId: string, filter: JobFilter, countMax: number): Promise<number> {
      const where = sql.join(conditions(organizationId, filter), sql.fragment` AND `);
      return pool.oneFirst(sql.type(countRow)`SELECT count(*) AS count FROM (
        SELECT FROM job x JOIN reservation r ON r.id = x.id WHERE ${where} LIMIT ${countMax}) AS n`);
    },
    /** Reads the jobs with these ids; omits jobs of other organizations. */
    some: (organizationId: string, jobIds: readonly string[]): Promise<readonly JobRecord[]> =>
      pool.any(
        sql.type(jobRow)`${select(sql.fragment`x.organization_id = ${organizationId}
          AND x.id = ANY(${sql.array([...jobIds], 'text')})`)} ORDER BY x.id`,
      ),
    /** Returns the ids from this list whose jobs have ended. */
    ended: (jobIds: readonly string[]): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`
        SELECT id FROM job WHERE id = ANY(${sql.array([...jobIds], 'text')}) AND status <> 'open'`),
  };
}
export type JobReads = ReturnType<typeof createJobReads>;

function conditions(organizationId: string | null, filter: JobFilter): FragmentSqlToken[] {
  const { status, type, provider, errorCode, search } = filter;
  const all = recordConditions(organizationId, filter);
  if (status !== undefined) all.push(...statusConditions(status));
  if (type !== undefined) all.push(sql.fragment`x.type = ${type}`);
  if (provider !== undefined) all.push(sql.fragment`x.provider = ${provider}`);
  if (errorCode !== undefined) all.push(sql.fragment`x.error->>'code' = ${errorCode}`);
  if (search !== undefined) all.push(matchesSearch(organizationId, search));
  return all;
}

function pageConditions({ beforeId }: JobListing): FragmentSqlToken[] {
  if (beforeId === undefined) return [];
  return [
    sql.fragment`(x.created_at, x.id) < (SELECT b.created_at, b.id FROM job b
      WHERE b.id = ${beforeId} AND b.organization_id = x.organization_id)`,
  ];
}

/** Returns the conditions for a status, written so that an index covers them. */
function statusConditions(status: NonNullable<JobListing['status']>): FragmentSqlToken[] {
  const begun = sql.fragment`EXISTS (SELECT FROM provider_call p
    WHERE p.job_id = x.id AND p.state <> 'waiting')`;
  if (status === 'open' || status === 'queued' || status === 'in_progress') {
    const open = sql.fragment`x.status = 'open' AND r.state = 'reserved'`;
    if (status === 'open') return [open];
    return [open, status === 'queued' ? sql.fragment`NOT ${begun}` : begun];
  }
  const ended = sql.fragment`x.status = ${status}`;
  return status === 'completed' ? [ended] : [ended, sql.fragment`x.error IS NOT NULL`];
}

/**
 * Reads the JSON artifacts from storage, because they are too long for a database row or a
 * workflow's history. Omits deleted artifacts.
 */
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

/** Organization, API key and user that submitted a job. */
const jobCaller = z.object({
  organizationName: z.string(),
  organizationStatus: z.enum(['active', 'suspended']),
  keyName: z.string(),
  keyPrefix: z.string(),
  keyRevokedAtMs: z.number().nullable(),
  userId: z.string(),
  userName: z.string(),
});
export type JobCaller = z.infer<typeof jobCaller>;

/** Filter and page of the operators' list of jobs, newest first. */
interface OversightListing extends JobListing {
  organizationId?: string | undefined;
}

/**
 * Creates the functions with which operators read the jobs of all organizations. They do not read
 * JSON artifacts.
 */
export function createJobOverview(pool: DatabasePool) {
  return {
    list(listing: OversightListing): Promise<readonly JobRecord[]> {
      const { organizationId = null, beforeId, limit } = listing;
      const where = conditions(organizationId, listing);
      // The order of job ids is the order in which the jobs were created.
      if (beforeId !== undefined) where.push(sql.fragment`x.id < ${beforeId}`);
      return pool.any(
        sql.type(jobRow)`${select(sql.fragment`${sql.join(where, sql.fragment` AND `)}`)}
        ORDER BY x.id DESC LIMIT ${limit}`,
      );
    },
    /** Reads a job; null if it does not exist. */
    find: (jobId: string): Promise<JobRecord | null> =>
      pool.maybeOne(sql.type(jobRow)`${select(sql.fragment`x.id = ${jobId}`)}`),
    /** Reads the plan of an open job; null if the job has ended or the plan has another version. */
    async plan({ id, request }: JobRecord): Promise<JobPlan | null> {
      const plan = await pool.maybeOneFirst(
        sql.type(planRow)`SELECT plan FROM job WHERE id = ${id}`,
      );
      return plan && { ...plan, request };
    },
    caller: ({ key_id: keyId }: Pick<JobRecord, 'key_id'>): Promise<JobCaller> =>
      pool.one(sql.type(jobCaller)`
        SELECT o.name AS "organizationName", o.status AS "organizationStatus", k.name AS "keyName",
          k.prefix AS "keyPrefix", k.revoked_at AS "keyRevokedAtMs", m.id AS "userId",
          m.name AS "userName"
        FROM api_key k JOIN organization o ON o.id = k.organization_id
          JOIN member m ON m.id = k.member_id
        WHERE k.id = ${keyId}`),
  };
}
