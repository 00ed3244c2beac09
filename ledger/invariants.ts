/** Checks invariants of credits and results in all rows, with one SQL statement. */
import { Client } from 'pg';

/** A violated invariant, and the id of the row that violates it. */
export interface Finding {
  finding: string;
  subject: string;
}

/**
 * Names of all checks, including those of the view `ledger_audit`, for reports without violations.
 */
export const invariantNames: readonly string[] = [
  'account differs from the sum of its entries',
  'reserved credits differ from the open reservations',
  'a reservation and its settle entry disagree',
  'a reservation and its refund entries disagree',
  'an entry does not continue the totals of the previous entry',
  'window use differs from its reservations',
  'budget use differs from its reservations and chats',
  "a job or chat is counted against a different budget from its key's",
  'a job and its reservation disagree',
  'a completed job has no artifact',
  'a reservation was not reserved exactly once',
  'a reservation was settled more than once',
  'an open Studio reservation has no open job',
  'an open reservation has waited too long for the sweeper',
  'the outputs of a job differ from its artifacts',
  'a job that was not paid for has artifacts',
];

/**
 * Selects all violations. A reservation that is more than 15 minutes overdue means that the sweeper
 * is not running.
 */
const violations = `
  SELECT finding, subject FROM ledger_audit
  UNION ALL
  SELECT 'a reservation was not reserved exactly once', r.id FROM reservation r
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
  SELECT DISTINCT 'a job that was not paid for has artifacts', a.job_id
    FROM artifact a JOIN job j ON j.id = a.job_id WHERE j.status <> 'completed'`;

/**
 * Time limit of the statement in milliseconds. The statement reads every row of the ledger, which
 * may be large.
 */
const timeoutMs = 15 * 60_000;

/** Returns all violations. Uses its own connection, snapshot and time limit. */
export async function findViolations(databaseUrl: string): Promise<Finding[]> {
  const client = new Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: 5000,
    statement_timeout: timeoutMs,
    query_timeout: timeoutMs,
  });
  // Without a listener, an error of an idle connection would crash the process.
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
