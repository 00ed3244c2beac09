/** Search of jobs by an id or by the text of their requests. */
import { sql, type FragmentSqlToken } from 'slonik';

/**
 * Number of the newest jobs that a search examines, so that its cost does not grow with the
 * history.
 */
export const searchedJobsMax = 10_000;

/** Length from which the end of a job id is searched; shorter ends are ambiguous. */
const idTailLength = 6;

/**
 * Makes the condition on the jobs `x` that match a text: the job id, the request id, a provider
 * request id or the Idempotency-Key, which is kept for two days; or the end of the job id or a part
 * of the prompt, among the newest `searchedJobsMax` jobs of the organization (null: of all
 * organizations).
 */
export function matchesSearch(organizationId: string | null, text: string): FragmentSqlToken {
  const scope =
    organizationId === null
      ? sql.fragment`true`
      : sql.fragment`j.organization_id = ${organizationId}`;
  // Both orders have an index; ids are ordered by time.
  const order =
    organizationId === null ? sql.fragment`j.id DESC` : sql.fragment`j.created_at DESC, j.id DESC`;
  return sql.fragment`(x.id IN (
      SELECT id FROM job WHERE id = ${text} OR request_id = ${text}
      UNION SELECT job_id FROM provider_call WHERE provider_request_id = ${text}
      UNION SELECT subject_id FROM idempotency_claim WHERE idempotency_key = ${text})
    OR x.id IN (SELECT n.id FROM (SELECT j.id, j.request FROM job j
      WHERE ${scope} ORDER BY ${order} LIMIT ${searchedJobsMax}) n
    WHERE length(${text}) >= ${idTailLength} AND right(n.id, length(${text})) = ${text}
      OR strpos(lower(concat_ws(' ', n.request->>'prompt', n.request->>'text', n.request->>'title',
          n.request->'inputs')), lower(${text})) > 0))`;
}
