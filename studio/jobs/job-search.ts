/** Searches jobs by an id or by a part of their prompts. */
import { sql, type FragmentSqlToken } from 'slonik';

/**
 * Number of newest jobs that a text search examines. It is limited, so that the duration of a
 * search does not grow with the number of jobs.
 */
export const searchedJobsMax = 10_000;

/** Minimum length of a searched end of a job id; a shorter one would match many jobs. */
const idEndingLengthMin = 6;

/**
 * Builds the SQL condition that a job `x` matches a search. A job matches if the searched string is
 * its job id, request id, provider request id or Idempotency-Key (stored for two days). One of the
 * newest `searchedJobsMax` jobs also matches if the searched string is the end of its job id or
 * part of its prompt. If `organizationId` is null, these are the newest jobs of all organizations.
 */
export function matchesSearch(organizationId: string | null, text: string): FragmentSqlToken {
  const scope =
    organizationId === null
      ? sql.fragment`true`
      : sql.fragment`j.organization_id = ${organizationId}`;
  // The database has an index for each of the two sort orders. Job ids are ordered by time.
  const order =
    organizationId === null ? sql.fragment`j.id DESC` : sql.fragment`j.created_at DESC, j.id DESC`;
  return sql.fragment`(x.id IN (
      SELECT id FROM job WHERE id = ${text} OR request_id = ${text}
      UNION SELECT job_id FROM provider_call WHERE provider_request_id = ${text}
      UNION SELECT subject_id FROM idempotency_claim WHERE idempotency_key = ${text})
    OR x.id IN (SELECT n.id FROM (SELECT j.id, j.request FROM job j
      WHERE ${scope} ORDER BY ${order} LIMIT ${searchedJobsMax}) n
    WHERE length(${text}) >= ${idEndingLengthMin} AND right(n.id, length(${text})) = ${text}
      OR strpos(lower(concat_ws(' ', n.request->>'prompt', n.request->>'text', n.request->>'title',
          n.request->'inputs')), lower(${text})) > 0))`;
}
