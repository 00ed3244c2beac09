/** What lists of jobs and of usage are narrowed by, as conditions on their rows. */
import { sql, type FragmentSqlToken } from 'slonik';

/** Which rows; what is absent narrows nothing. */
export interface RecordFilter {
  keyId?: string | undefined;
  model?: string | undefined;
  /** Only rows made strictly later, and strictly before, Unix ms. */
  afterMs?: number | undefined;
  beforeMs?: number | undefined;
  /** Only rows with all these pairs. */
  metadata?: Record<string, string> | undefined;
}

/** Conditions on the rows `x` of an organization. */
export function recordConditions(organizationId: string, filter: RecordFilter): FragmentSqlToken[] {
  const { keyId, model, afterMs, beforeMs, metadata = {} } = filter;
  const found = [sql.fragment`x.organization_id = ${organizationId}`];
  if (keyId !== undefined) found.push(sql.fragment`x.key_id = ${keyId}`);
  if (model !== undefined) found.push(sql.fragment`x.model = ${model}`);
  if (afterMs !== undefined) {
    // Milliseconds are shown: the next one shown is the first that is later.
    found.push(sql.fragment`x.created_at >= timestamp_of_ms(${afterMs + 1}::bigint)`);
  }
  if (beforeMs !== undefined) {
    found.push(sql.fragment`x.created_at < timestamp_of_ms(${beforeMs}::bigint)`);
  }
  // The index of `tag` finds a tag's rows in the order of time, and whether a row has a tag: Postgres takes
  // whichever is less.
  for (const [name, value] of Object.entries(metadata)) {
    found.push(sql.fragment`EXISTS (SELECT FROM tag t
      WHERE t.organization_id = ${organizationId} AND t.name = ${name} AND t.value = ${value}
        AND t.created_at = x.created_at AND t.id = x.id)`);
  }
  return found;
}
