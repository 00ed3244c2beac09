/**
 * Reads jobs from the database for API responses. The phase of a job is not stored; it is derived
 * from the rows of the job and its calls.
 */
import { sql, type FragmentSqlToken, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { buffer } from 'node:stream/consumers';
import type { Json } from '../../domain/json.ts';
import { chatJobType } from '../../domain/job-contract.ts';
import { isArchived } from '../../ledger/ledger-reads.ts';
import { jobRow, type Documents, type JobRecord } from '../../domain/job-record.ts';
import {
  approvalPlanVersion,
  chatPlanVersion,
  planVersion,
  type CallOutputs,
  type JobPlan,
} from '../../domain/job-plan.ts';
import type { Storage } from '../../storage/storage.ts';
import { recordConditions, type RecordFilter } from '../../platform/record-lists.ts';

/** Minimum length of a searched end of a job id; a shorter one would match many jobs. */
const idEndingLengthMin = 6;
/**
 * Number of newest jobs whose text is read before the index is used: a frequent text is found
 * among them, and the index finds a rare one.
 */
const newestMax = 1000;
/** Number of newest jobs whose text is read if the index cannot find the searched text. */
export const newestUnindexedMax = 10_000;
/** Text that the index can find: it contains a trigram. */
const indexedText = /[\p{L}\p{N}]{3}/u;

/** Columns in which the index on `job` sorts its entries; the same expressions as in its definition. */
const searchedText = (job: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  lower(coalesce(${job}.request->>'prompt', '') || ' ' || coalesce(${job}.request->>'text', '') || ' '
    || coalesce(${job}.request->>'title', '') || ' ' || coalesce(${job}.request->>'inputs', ''))`;
const monthOf = (time: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`date_trunc('month', ${time} AT TIME ZONE 'UTC')`;

interface JobSearch {
  /** Null to search the jobs of all organizations. */
  organizationId: string | null;
  text: string;
  /** Further conditions on the rows `x` of the job and `r` of its reservation. */
  conditions: readonly FragmentSqlToken[];
  /** Maximum number of jobs that are found by their prompts; the newest ones are found. */
  limit: number;
}

/**
 * Builds the SQL condition that a job `x` matches a search. A job matches if the searched string is
 * its job id, the end of its job id, its request id, provider request id or Idempotency-Key (stored
 * for two days), or a part of its prompt.
 */
function matchesSearch(search: JobSearch): FragmentSqlToken {
  const { organizationId, text } = search;
  const ownClaim =
    organizationId === null
      ? sql.fragment`true`
      : sql.fragment`organization_id = ${organizationId}`;
  // An array, unlike a subquery with IN, is always computed first.
  return sql.fragment`x.id = ANY (ARRAY(
    SELECT id FROM job WHERE id = ${text} OR request_id = ${text}
    UNION SELECT id FROM job WHERE length(${text}) >= ${idEndingLengthMin}
      AND reverse(id) ^@ reverse(${text})
    UNION SELECT job_id FROM provider_call WHERE provider_request_id = ${text}
    UNION SELECT subject_id FROM idempotency_claim WHERE ${ownClaim} AND idempotency_key = ${text}
    UNION (${selectByText(search)})))`;
}

/**
 * Builds the statement that selects the newest jobs whose text contains the searched one. The index
 * is read month by month, the newest first, until enough jobs are found: the entries of a frequent
 * text in all months would be too many.
 */
function selectByText(search: JobSearch): FragmentSqlToken {
  const { organizationId, text, conditions, limit } = search;
  const pattern = sql.fragment`'%' || lower(${escapeWildcards(text)}) || '%'`;
  // A database with the locale C has no trigrams of letters outside ASCII.
  const isIndexed = sql.fragment`(${indexedText.test(text)} AND show_trgm(${text}) <> '{}')`;
  const where = sql.fragment`${sql.join(conditions, sql.fragment` AND `)}`;
  const isOwn =
    organizationId === null
      ? sql.fragment`true`
      : sql.fragment`j.organization_id = ${organizationId}`;
  // The table has an index for each of the two sort orders. Job ids are ordered by time.
  const [newestFirst, oldestFirst] =
    organizationId === null
      ? [sql.fragment`x.id DESC`, sql.fragment`j.id`]
      : [sql.fragment`x.created_at DESC, x.id DESC`, sql.fragment`j.created_at, j.id`];
  return sql.fragment`
    WITH newest AS MATERIALIZED (
      SELECT s.id FROM (SELECT x.id, x.request FROM job x JOIN reservation r ON r.id = x.id
        WHERE ${where} ORDER BY ${newestFirst} LIMIT CASE WHEN ${isIndexed} THEN ${newestMax}::bigint ELSE ${newestUnindexedMax} END) AS s
      WHERE ${searchedText(sql.fragment`s`)} LIKE ${pattern} LIMIT ${limit})
    SELECT id FROM newest
    UNION ALL (SELECT found.id
      FROM generate_series(${monthOf(sql.fragment`now()`)},
          (SELECT ${monthOf(sql.fragment`j.created_at`)} FROM job j WHERE ${isOwn} ORDER BY ${oldestFirst} LIMIT 1),
          interval '-1 month') AS month,
        LATERAL (
          SELECT x.id
          -- OFFSET prevents a scan in the order of time, which would read all jobs without the text.
          FROM (SELECT j.* FROM job j WHERE ${isOwn} AND ${monthOf(sql.fragment`j.created_at`)} = month
              AND ${searchedText(sql.fragment`j`)} LIKE ${pattern} OFFSET 0) AS x
            JOIN reservation r ON r.id = x.id
          WHERE ${where} ORDER BY ${newestFirst} LIMIT ${limit}) AS found
      WHERE ${isIndexed} AND (SELECT count(*) FROM newest) < ${limit}
      LIMIT ${limit})`;
}

const escapeWildcards = (text: string): string => text.replace(/[\\%_]/g, String.raw`\$&`);

const idRow = z.object({ id: z.string() });
/** Schema of a count of jobs. */
const jobCount = z.object({ count: z.number(), complete: z.boolean() });
type JobCount = z.infer<typeof jobCount>;

const planHead = z.looseObject({
  planVersion: z.literal([planVersion, approvalPlanVersion, chatPlanVersion]),
});
/** Schema of a stored plan. A plan of another version is read as null. */
const planRow = z.object({
  plan: z
    .custom<Omit<JobPlan, 'request'>>((plan) => planHead.safeParse(plan).success)
    .nullable()
    .catch(null),
});

export type { JobRecord };

/** Filter of jobs. */
export interface JobFilter extends RecordFilter {
  /** `open`: queued or in progress. */
  status?: 'open' | 'queued' | 'in_progress' | 'completed' | 'failed' | 'canceled' | undefined;
  type?: string | undefined;
  provider?: string | undefined;
  errorCode?: string | undefined;
  /** `awaiting_approval`: a step waits for a decision. */
  phase?: 'awaiting_approval' | undefined;
  /** Id or text that a job must match. */
  search?: string | undefined;
}

/** Filter and page of a list of jobs, newest first. */
interface JobListing extends JobFilter {
  /** Id of the last job on the previous page. */
  beforeId?: string | undefined;
  limit: number;
}

const selectJobs = (
  where: FragmentSqlToken,
  outputs = sql.fragment`x.outputs`,
): FragmentSqlToken => sql.fragment`
  SELECT x.id, x.organization_id AS "organizationId", x.key_id AS "keyId", x.type, x.model, x.provider, x.status, x.verifying,
    x.unknown_outcome AS "unknownOutcome", x.request, x.metadata, x.recipe, ${outputs} AS outputs, x.steps, x.approvals, x.error, x.request_id AS "requestId", x.created_at AS "createdAtMs",
    x.deadline_at AS "deadlineAtMs", x.completed_at AS "completedAtMs", x.media_deleted_at AS "mediaDeletedAtMs",
    c.started_at AS "startedAtMs", c.call_states AS "callStates", c.step_calls AS "stepCalls", c.queue_position AS "queuePosition",
    (x.plan->>'typicalSeconds')::float8 AS "typicalSeconds",
    r.state AS "billingState", r.amount AS reserved, r.charged,
    coalesce(r.refunded, 0) AS refunded, a.posted - a.reserved AS available
  FROM job x
    JOIN reservation r ON r.id = x.id
    JOIN account a ON a.organization_id = x.organization_id
    LEFT JOIN LATERAL (SELECT min(p.begun_at) FILTER (WHERE p.state <> 'waiting') AS started_at,
        array_agg(CASE WHEN p.state IN ('begun', 'accepted')
            AND (p.progress->>'state' = 'storing' OR p.notified_at IS NOT NULL)
          THEN 'storing' ELSE p.state END) AS call_states,
        max((p.progress->>'queuePosition')::integer) FILTER (WHERE p.progress->>'state' = 'queued')
          AS queue_position,
        jsonb_agg(jsonb_build_object('index', p.call_index, 'state', p.state,
          'begunAtMs', unix_ms(p.begun_at), 'answeredAtMs', unix_ms(p.answered_at),
          'changedAtMs', unix_ms(greatest(p.updated_at, p.notified_at)),
          'outputs', CASE x.status WHEN 'open' THEN p.outputs END)) FILTER (WHERE x.steps IS NOT NULL)
          AS step_calls
      FROM job_call p WHERE p.job_id = x.id) c ON true
  WHERE ${where}`;

/**
 * Builds the statement that selects a page of jobs. It finds their ids first: otherwise, Postgres may
 * read the calls of all jobs that match before it sorts them. The answers of chat jobs may be long, and are
 * not read.
 */
const selectPage = (
  where: readonly FragmentSqlToken[],
  order: FragmentSqlToken,
  limit: number,
): FragmentSqlToken =>
  selectJobs(
    sql.fragment`x.id = ANY (ARRAY(
      SELECT x.id FROM job x JOIN reservation r ON r.id = x.id
      WHERE ${sql.join(where, sql.fragment` AND `)} ORDER BY ${order} LIMIT ${limit}))`,
    sql.fragment`CASE WHEN x.type <> ${chatJobType} THEN x.outputs END`,
  );

/**
 * Creates the functions that read the jobs of an organization. If `storage` is given, `read` and
 * `readMany` also read the JSON artifacts of the jobs.
 */
export function createJobReads(pool: CommonQueryMethods, storage?: Pick<Storage, 'open'>) {
  const addDocuments = async (job: JobRecord): Promise<JobRecord> =>
    job.outputs && storage ? { ...job, documents: await loadDocuments(storage, job.outputs) } : job;
  return {
    /** Reads a job; null if the organization has no such job. */
    read: async (organizationId: string, jobId: string): Promise<JobRecord | null> => {
      const job = await pool.maybeOne(
        sql.type(jobRow)`${selectJobs(
          sql.fragment`x.organization_id = ${organizationId} AND x.id = ${jobId}`,
        )}`,
      );
      return job && addDocuments(job);
    },
    /** Returns the error code for a job that was not read: whether it is archived or never existed. */
    missing: (organizationId: string, jobId: string) => readMissing(pool, organizationId, jobId),
    list(organizationId: string, listing: JobListing): Promise<readonly JobRecord[]> {
      const page = buildPageConditions(listing);
      const where = buildConditions(organizationId, listing, page);
      const order = sql.fragment`x.created_at DESC, x.id DESC`;
      return pool.any(
        sql.type(jobRow)`${selectPage(where, order, listing.limit)} ORDER BY ${order}`,
      );
    },
    /** Counts the jobs that match a filter, up to `countMax`. `complete` is false if there are more. */
    count(organizationId: string, filter: JobFilter, countMax: number): Promise<JobCount> {
      const where = buildConditions(organizationId, { ...filter, limit: countMax + 1 });
      // Only the conditions of open jobs read the reservations.
      const hasEnded = filter.status === 'failed' || filter.status === 'canceled';
      const reservations = hasEnded
        ? sql.fragment``
        : sql.fragment`JOIN reservation r ON r.id = x.id`;
      return pool.one(sql.type(jobCount)`
        SELECT least(count(*), ${countMax}) AS count, count(*) <= ${countMax} AS complete
        FROM (SELECT FROM job x ${reservations}
          WHERE ${sql.join(where, sql.fragment` AND `)} LIMIT ${countMax + 1}) AS x`);
    },
    /** Reads the jobs with the given ids. Omits jobs of other organizations. */
    readMany: async (
      organizationId: string,
      jobIds: readonly string[],
    ): Promise<readonly JobRecord[]> => {
      const jobs = await pool.any(
        sql.type(jobRow)`${selectJobs(sql.fragment`x.organization_id = ${organizationId}
          AND x.id = ANY(${sql.array([...jobIds], 'text')})`)} ORDER BY x.id`,
      );
      return Promise.all(jobs.map(addDocuments));
    },
    /** Returns the ids of those of the given jobs that have ended. */
    ended: (jobIds: readonly string[]): Promise<readonly string[]> =>
      pool.anyFirst(sql.type(idRow)`
        SELECT id FROM job WHERE id = ANY(${sql.array([...jobIds], 'text')}) AND status <> 'open'`),
  };
}
export type JobReads = ReturnType<typeof createJobReads>;

async function readMissing(
  pool: CommonQueryMethods,
  organizationId: string | null,
  jobId: string,
): Promise<'JOB_ARCHIVED' | 'JOB_NOT_FOUND'> {
  return (await isArchived(pool, jobId, organizationId)) ? 'JOB_ARCHIVED' : 'JOB_NOT_FOUND';
}

/** Builds the conditions of a filter. Of the jobs that a search finds, `limit` newest ones match. */
export function buildConditions(
  organizationId: string | null,
  filter: JobFilter & { limit: number },
  page: readonly FragmentSqlToken[] = [],
): FragmentSqlToken[] {
  const { status, phase, type, provider, errorCode, search, limit } = filter;
  const conditions = [...recordConditions(organizationId, filter), ...page];
  if (status !== undefined) conditions.push(...buildStatusConditions(status));
  if (phase !== undefined) conditions.push(sql.fragment`x.awaiting AND x.status = 'open'`);
  if (type !== undefined) conditions.push(sql.fragment`x.type = ${type}`);
  if (provider !== undefined) conditions.push(sql.fragment`x.provider = ${provider}`);
  if (errorCode !== undefined) conditions.push(sql.fragment`x.error->>'code' = ${errorCode}`);
  if (search !== undefined) {
    conditions.push(
      matchesSearch({ organizationId, text: search, conditions: [...conditions], limit }),
    );
  }
  return conditions;
}

function buildPageConditions({ beforeId, metadata = {} }: JobListing): FragmentSqlToken[] {
  if (beforeId === undefined) return [];
  return [
    sql.fragment`(x.created_at, x.id) < (SELECT b.created_at, b.id FROM job b
      WHERE b.id = ${beforeId} AND b.organization_id = x.organization_id
        AND coalesce(b.metadata, '{}') @> ${sql.jsonb(metadata)})`,
  ];
}

/**
 * Returns the SQL conditions for a job status. They have the same form as the conditions of the
 * indexes, so that Postgres uses an index.
 */
function buildStatusConditions(status: NonNullable<JobListing['status']>): FragmentSqlToken[] {
  const hasBegunCall = sql.fragment`EXISTS (SELECT FROM provider_call p
    WHERE p.job_id = x.id AND p.state <> 'waiting')`;
  if (status === 'open' || status === 'queued' || status === 'in_progress') {
    const isOpen = sql.fragment`x.status = 'open' AND r.state = 'reserved'`;
    if (status === 'open') return [isOpen];
    const hasBegun = sql.fragment`(x.awaiting OR ${hasBegunCall})`;
    return [isOpen, status === 'queued' ? sql.fragment`NOT ${hasBegun}` : hasBegun];
  }
  const hasEnded = sql.fragment`x.status = ${status}`;
  if (status === 'completed') return [hasEnded];
  return [
    hasEnded,
    status === 'canceled'
      ? sql.fragment`x.error->>'code' = 'CANCELED'`
      : sql.fragment`x.error IS NOT NULL`,
  ];
}

/**
 * Reads the JSON artifacts of a job from storage. They are not in the database, because they are
 * too long for a row or for a workflow's history. Deleted artifacts are omitted.
 */
export async function loadDocuments(
  storage: Pick<Storage, 'open'>,
  outputs: CallOutputs[],
): Promise<Documents> {
  const keys = outputs
    .flatMap((output) => output.artifacts)
    .filter((artifact) => artifact.contentType === 'application/json')
    .map((artifact) => artifact.storageKey);
  const contents = await Promise.all(
    keys.map(async (key): Promise<[string, Json][]> => {
      const object = await storage.open(key);
      return object ? [[key, JSON.parse((await buffer(object.stream)).toString('utf8'))]] : [];
    }),
  );
  return new Map(contents.flat());
}

/** Schema of the caller of a job: the organization, the API key and the user. */
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

/** Filter and page of the list of jobs that operators read, newest first. */
interface OperatorJobListing extends JobListing {
  organizationId?: string | undefined;
}

/**
 * Creates the functions with which operators read the jobs of all organizations. These functions do
 * not read JSON artifacts.
 */
export function createJobOverview(pool: DatabasePool) {
  return {
    list(listing: OperatorJobListing): Promise<readonly JobRecord[]> {
      const { organizationId = null, beforeId, limit } = listing;
      // Job ids are in the order in which the jobs were created.
      const page = beforeId === undefined ? [] : [sql.fragment`x.id < ${beforeId}`];
      const where = buildConditions(organizationId, listing, page);
      const order = sql.fragment`x.id DESC`;
      return pool.any(sql.type(jobRow)`${selectPage(where, order, limit)} ORDER BY ${order}`);
    },
    /** Reads a job; null if it does not exist. */
    find: (jobId: string): Promise<JobRecord | null> =>
      pool.maybeOne(sql.type(jobRow)`${selectJobs(sql.fragment`x.id = ${jobId}`)}`),
    /** Returns the error code for a job that was not found: whether it is archived or never existed. */
    missing: (jobId: string) => readMissing(pool, null, jobId),
    /** Reads the plan of an open job; null if the job has ended or the plan has another version. */
    async readPlan({ id, request }: JobRecord): Promise<JobPlan | null> {
      const plan = await pool.maybeOneFirst(
        sql.type(planRow)`SELECT plan FROM job WHERE id = ${id}`,
      );
      return plan && { ...plan, request };
    },
    readCaller: ({ keyId }: Pick<JobRecord, 'keyId'>): Promise<JobCaller> =>
      pool.one(sql.type(jobCaller)`
        SELECT o.name AS "organizationName", o.status AS "organizationStatus", k.name AS "keyName",
          k.prefix AS "keyPrefix", k.revoked_at AS "keyRevokedAtMs", m.id AS "userId",
          m.name AS "userName"
        FROM api_key k JOIN organization o ON o.id = k.organization_id
          JOIN app_user m ON m.id = k.user_id
        WHERE k.id = ${keyId}`),
  };
}

export type JobOverview = ReturnType<typeof createJobOverview>;
