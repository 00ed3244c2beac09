/** Search of jobs by an id or by the text of their requests. */
import { sql, type FragmentSqlToken } from 'slonik';

/** Number of the newest jobs that a search examines, so that its cost does not grow with the history. */
export const searchedJobsMax = 10_000;

/** Length from which the end of a job id is searched; shorter ends are ambiguous. */
const idTailLength = 6;

/**
 * Makes the condition on the jobs `x` that match a text: the job id or its end, the request id, the Idempotency-Key, the
 * request id of a provider, or a part of the prompt. Only the newest `searchedJobsMax` jobs of the organization (null: of
 * all organizations) are examined; a complete job id is always found.
 */
export function matchesSearch(organizationId: string | null, text: string): FragmentSqlToken {
  const scope =
    organizationId === null
      ? sql.fragment`true`
      : sql.fragment`j.organization_id = ${organizationId}`;
  // Both orders have an index; ids are ordered by time.
  const order =
    organizationId === null ? sql.fragment`j.id DESC` : sql.fragment`j.created_at DESC, j.id DESC`;
  return sql.fragment`(x.id = ${text} OR x.id IN (
    SELECT n.id FROM (SELECT j.id, j.organization_id, j.request_id, j.request FROM job j
      WHERE ${scope} ORDER BY ${order} LIMIT ${searchedJobsMax}) n
    WHERE n.request_id = ${text}
      OR length(${text}) >= ${idTailLength} AND right(n.id, length(${text})) = ${text}
      OR strpos(lower(concat_ws(' ', n.request->>'prompt', n.request->>'text', n.request->>'title',
          n.request->'inputs')), lower(${text})) > 0
      OR EXISTS (SELECT FROM idempotency_claim c WHERE c.organization_id = n.organization_id
          AND c.idempotency_key = ${text} AND c.subject_id = n.id)
      OR EXISTS (SELECT FROM provider_call p WHERE p.job_id = n.id AND p.operation->>'id' = ${text})))`;
}
