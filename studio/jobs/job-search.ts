/** Searches jobs by an id or by a part of their prompts. */
import { sql, type FragmentSqlToken } from 'slonik';

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
export function matchesSearch(search: JobSearch): FragmentSqlToken {
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
