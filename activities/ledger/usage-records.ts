/**
 * Usage records: one for each job and chat, read from the very rows that the ledger settles, written with
 * their reservation.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { recordConditions, type RecordFilter } from '../jobs/record-conditions.ts';

/** Which records. */
export interface UsageFilter extends RecordFilter {
  /** `chat`, or a type of job. */
  type?: string | undefined;
  status?: 'reserved' | 'charged' | 'released' | undefined;
}

interface Records extends UsageFilter {
  /** Further conditions on the rows `x`. */
  bounds?: FragmentSqlToken[];
}

const tokens = sql.fragment`x.input_tokens, x.output_tokens, x.request_id, NULL AS job_id, x.metadata`;
const ofReservation = sql.fragment`r.state AS status, coalesce(r.charged, 0) AS charged`;

/** The kinds of record: their columns, alike in both. */
const kinds = {
  job: sql.fragment`SELECT x.id, x.created_at, x.key_id, x.type, x.model, ${ofReservation},
      NULL::bigint AS input_tokens, NULL::bigint AS output_tokens, x.request_id, x.id AS job_id, x.metadata
      FROM job x JOIN reservation r ON r.id = x.id`,
  chat: sql.fragment`SELECT x.id, x.created_at, x.key_id, 'chat' AS type, x.model, ${ofReservation},
      ${tokens} FROM chat_request x JOIN reservation r ON r.id = x.id`,
};

/**
 * A statement for each kind of record that is wanted, all with the columns id, created_at, key_id, type,
 * model, status, charged (micro-credits), input_tokens, output_tokens, request_id, job_id, metadata.
 */
export function usageRecords(
  organizationId: string,
  { type, status, bounds = [], ...filter }: Records,
): FragmentSqlToken[] {
  const ofType = type === 'chat' ? [kinds.chat] : [kinds.job];
  const wanted = type === undefined ? Object.values(kinds) : ofType;
  return wanted.map((kind) => {
    const conditions = [...recordConditions(organizationId, filter), ...bounds];
    if (status !== undefined) conditions.push(sql.fragment`r.state = ${status}`);
    if (type !== undefined && kind === kinds.job) conditions.push(sql.fragment`x.type = ${type}`);
    return sql.fragment`${kind} WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
  });
}
