/**
 * Usage records: one for each job and chat, read from the very rows that the ledger settles. A job and a
 * chat are written with their reservation; chats of a lease stand for themselves, and the lease is
 * nobody's request.
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

/** The kinds of record: their columns, alike in all, and where their status stands. */
const kinds = {
  job: {
    select: sql.fragment`SELECT x.id, x.created_at, x.key_id, x.type, x.model, ${ofReservation},
      NULL::bigint AS input_tokens, NULL::bigint AS output_tokens, x.request_id, x.id AS job_id, x.metadata
      FROM job x JOIN reservation r ON r.id = x.id`,
    status: sql.fragment`r.state`,
  },
  chat: {
    select: sql.fragment`SELECT x.id, x.created_at, x.key_id, 'chat' AS type, x.model, ${ofReservation},
      ${tokens} FROM chat_request x JOIN reservation r ON r.id = x.id`,
    status: sql.fragment`r.state`,
  },
  leasedChat: {
    select: sql.fragment`SELECT x.id, x.created_at, x.key_id, 'chat' AS type, x.model, x.state AS status,
      CASE x.state WHEN 'charged' THEN x.amount ELSE 0 END AS charged, ${tokens} FROM leased_chat x`,
    status: sql.fragment`x.state`,
  },
};

/**
 * A statement for each kind of record that is wanted, all with the columns id, created_at, key_id, type,
 * model, status, charged (micro-credits), input_tokens, output_tokens, request_id, job_id, metadata.
 */
export function usageRecords(
  organizationId: string,
  { type, status, bounds = [], ...filter }: Records,
): FragmentSqlToken[] {
  const wanted = type === undefined ? Object.values(kinds) : kindsOf(type);
  return wanted.map((kind) => {
    const conditions = [...recordConditions(organizationId, filter), ...bounds];
    if (status !== undefined) conditions.push(sql.fragment`${kind.status} = ${status}`);
    if (type !== undefined && kind === kinds.job) conditions.push(sql.fragment`x.type = ${type}`);
    return sql.fragment`${kind.select} WHERE ${sql.join(conditions, sql.fragment` AND `)}`;
  });
}

function kindsOf(type: string) {
  return type === 'chat' ? [kinds.chat, kinds.leasedChat] : [kinds.job];
}
