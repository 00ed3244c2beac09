/** Finds rows that violate an invariant of credits or results, with one SQL statement. */
import { Client } from 'pg';
import { parseDatabaseUrl } from '../platform/database-url.ts';

/** Violation: the name of an invariant, and the id of the row that violates it. */
export interface Finding {
  finding: string;
  subject: string;
}

/**
 * Names of all invariants, including those that the view `ledger_audit` checks. A report also lists
 * invariants without violations.
 */
export const invariantNames: readonly string[] = [
  'the totals of an account differ from its ledger entries',
  'the reserved credits of an account differ from its open reservations',
  'a reservation differs from its charge or release entry',
  'the refunds of a reservation differ from its refund entries',
  'the totals of a ledger entry do not follow from the previous entry',
  'something other than the charge of a chat made a balance negative',
  'the use of a six-hour window differs from its reservations',
  'the spending of a budget differs from its reservations and charges',
  'a job or chat is counted in another budget than that of its API key',
  'the status of a job contradicts its reservation',
  'a completed job has no artifact',
  'a reservation does not have exactly one reserve entry',
  'a reservation was settled more than once',
  'an open Studio reservation has no open job',
  'an open reservation has waited too long for the sweeper',
  'the outputs of a job differ from its artifacts',
  'a job that was not charged has artifacts',
];

/**
 * Statement that selects all violations. If a reservation is more than 15 minutes overdue, the
 * sweeper is not running.
 */
const violations = `
  SELECT finding, subject FROM ledger_audit
  UNION ALL
  SELECT 'a reservation does not have exactly one reserve entry', r.id FROM reservation r
    LEFT JOIN ledger_entry e ON e.reservation_id = r.id AND e.kind = 'reserve'
    GROUP BY r.id, r.amount HAVING count(e.sequence) <> 1 OR sum(e.reserved_change) <> r.amount
  UNION ALL
  SELECT 'a reservation was settled more than once', e.reservation_id FROM ledger_entry e
    WHERE e.kind IN ('charge', 'release') GROUP BY e.reservation_id HAVING count(*) > 1
  UNION ALL
  SELECT 'an open Studio reservation has no open job', r.id FROM reservation r
    WHERE r.kind = 'studio' AND r.state = 'reserved'
      AND NOT EXISTS (SELECT FROM job j WHERE j.id = r.id AND j.status = 'open')
  UNION ALL
  SELECT 'an open reservation has waited too long for the sweeper', r.id FROM reservation r
    WHERE r.state = 'reserved' AND r.expires_at < clock_timestamp() - interval '15 minutes'
  UNION ALL
  SELECT 'the outputs of a job differ from its artifacts', j.id FROM job j
    CROSS JOIN LATERAL (
      SELECT coalesce(jsonb_agg(file ORDER BY file), '[]') AS files
      FROM jsonb_path_query(j.outputs, '$[*].artifacts[*]') AS a(output),
        LATERAL jsonb_build_array(output->>'storageKey', output->>'sha256',
          (output->>'sizeBytes')::bigint)
          AS f(file)) listed
    CROSS JOIN LATERAL (
      SELECT coalesce(jsonb_agg(file ORDER BY file), '[]') AS files
      FROM artifact a, LATERAL jsonb_build_array(a.storage_key, a.sha256, a.size_bytes) AS f(file)
      WHERE a.job_id = j.id) stored
    WHERE j.status = 'completed' AND listed.files <> stored.files
  UNION ALL
  SELECT DISTINCT 'a job that was not charged has artifacts', a.job_id
    FROM artifact a JOIN job j ON j.id = a.job_id WHERE j.status <> 'completed'`;

/**
 * Time limit of the statement in milliseconds. It is long, because the statement reads every row of
 * the ledger.
 */
const timeoutMs = 15 * 60_000;

/** Returns all violations. Uses its own connection, snapshot and time limit. */
export async function findViolations(databaseUrl: string): Promise<Finding[]> {
  const client = new Client({
    ...parseDatabaseUrl(databaseUrl),
    connectionTimeoutMillis: 5000,
    statement_timeout: timeoutMs,
    query_timeout: timeoutMs,
  });
  // Without this listener, an error of the idle connection would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { rows } = await client.query<Finding>(violations);
    return rows;
  } finally {
    await client.end();
  }
}
