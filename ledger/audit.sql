-- Checks of the ledger's invariants (docs/guarantees.md). Each finding is a row with the name of the
-- invariant, the organization, and the id of the row that violates it. The same functions check one
-- page of an account, the rows that changed since the last audit, and all rows (invariants.ts).

-- Checks at most `entries_max` ledger entries of an account behind the last checked entry, and, behind
-- the last entry, the totals of the account. `checked` is {sequence, posted, reserved, postedAfter,
-- reservedAfter}: the last checked entry, the sums of the changes up to it, and its totals, which
-- equal the sums if all entries are right. `reservation_ids` are the reservations of the entries.
-- Because idempotency keys are unique, an entry whose key is not that of its kind is a second one.
CREATE FUNCTION audit_entries(account_id text, INOUT checked jsonb, entries_max integer,
  OUT is_last boolean, OUT reservation_ids text[], OUT findings jsonb) LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH c AS (SELECT * FROM jsonb_to_record(checked) AS x(sequence bigint, posted bigint, reserved bigint,
      "postedAfter" bigint, "reservedAfter" bigint)),
    page AS MATERIALIZED (SELECT e.* FROM ledger_entry e
      WHERE e.organization_id = account_id AND e.sequence > (checked->>'sequence')::bigint
      ORDER BY e.sequence LIMIT entries_max),
    chain AS (SELECT e.*, lag(e.sequence, 1, c.sequence) OVER w AS sequence_before,
        lag(e.posted_after, 1, c."postedAfter") OVER w AS posted_before,
        lag(e.reserved_after, 1, c."reservedAfter") OVER w AS reserved_before
      FROM page e, c WINDOW w AS (ORDER BY e.sequence)),
    ends AS (SELECT count(*) < entries_max AS is_last, max(sequence) AS sequence,
        coalesce(sum(posted_change), 0)::bigint AS posted, coalesce(sum(reserved_change), 0)::bigint AS reserved,
        array_agg(DISTINCT reservation_id) FILTER (WHERE reservation_id IS NOT NULL) AS reservation_ids,
        bool_or(sequence <> sequence_before + 1) IS TRUE AS has_gap
      FROM chain),
    state AS (SELECT coalesce(e.sequence, c.sequence) AS sequence, c.posted + e.posted AS posted,
        c.reserved + e.reserved AS reserved, coalesce(l.posted_after, c."postedAfter") AS "postedAfter",
        coalesce(l.reserved_after, c."reservedAfter") AS "reservedAfter"
      FROM c CROSS JOIN ends e LEFT JOIN page l ON l.sequence = e.sequence),
    found AS (
      SELECT 'the totals of an account differ from its ledger entries' AS finding, account_id AS subject
        FROM ends e CROSS JOIN state s LEFT JOIN account a ON a.organization_id = account_id
        WHERE e.has_gap OR e.is_last
          AND (a.posted, a.reserved, a.sequence) IS DISTINCT FROM (s.posted, s.reserved, s.sequence)
      UNION ALL
      SELECT 'the totals of a ledger entry do not follow from the previous entry', account_id || ':' || sequence
        FROM chain
        WHERE posted_after <> posted_before + posted_change OR reserved_after <> reserved_before + reserved_change
          OR reserved_after < 0
      UNION ALL
      SELECT 'something other than a charge made a balance negative', account_id || ':' || sequence
        FROM page
        WHERE reserved_after > posted_after AND reserved_change > posted_change AND kind <> 'charge'
      UNION ALL
      SELECT 'a ledger entry has no reservation', account_id || ':' || e.sequence
        FROM page e LEFT JOIN reservation r ON r.id = e.reservation_id
        WHERE e.reservation_id IS NOT NULL AND r.id IS NULL
      UNION ALL
      SELECT CASE WHEN kind = 'reserve' THEN 'a reservation does not have exactly one reserve entry'
          ELSE 'a reservation was settled more than once' END, reservation_id
        FROM page
        WHERE kind IN ('reserve', 'charge', 'release') AND idempotency_key
          <> CASE WHEN kind = 'reserve' THEN 'reserve:' ELSE 'settle:' END || reservation_id)
  SELECT to_jsonb(s), e.is_last, coalesce(e.reservation_ids, '{}'),
    (SELECT coalesce(jsonb_agg(jsonb_build_object('finding', finding, 'subject', subject)), '[]') FROM found)
  FROM ends e CROSS JOIN state s $$;

-- Checks reservations against their ledger entries, API keys, jobs and artifacts. The planner settings
-- make Postgres use indexes: a page of reservations must not read whole tables.
CREATE FUNCTION audit_reservations(ids text[])
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH r AS MATERIALIZED (SELECT x.organization_id, x.id, x.state, x.amount, x.charged, x.refunded, x.budget_id,
      coalesce(j.key_id, x.key_id) AS key_id, j.status, j.outputs,
      CASE WHEN j.id IS NOT NULL THEN (SELECT coalesce(jsonb_agg(file ORDER BY file), '[]') FROM artifact a,
        LATERAL jsonb_build_array(a.storage_key, a.sha256, a.size_bytes) AS f (file) WHERE a.job_id = j.id) END AS files
    FROM unnest(ids) AS i (id) JOIN reservation x USING (id) LEFT JOIN job j ON j.id = x.id)
  SELECT 'a reservation does not have exactly one reserve entry', r.organization_id, r.id FROM r
    LEFT JOIN ledger_entry e ON e.organization_id = r.organization_id AND e.idempotency_key = 'reserve:' || r.id
    WHERE (e.kind, e.reservation_id, e.reserved_change) IS DISTINCT FROM ('reserve', r.id, r.amount::bigint)
  UNION ALL
  SELECT 'a reservation differs from its charge or release entry', r.organization_id, r.id FROM r
    LEFT JOIN ledger_entry s ON s.organization_id = r.organization_id AND s.idempotency_key = 'settle:' || r.id
    WHERE (r.state = 'reserved') <> (s.sequence IS NULL) OR -s.reserved_change <> r.amount
      OR (s.kind = 'charge') <> (r.state = 'charged') OR -s.posted_change <> coalesce(r.charged, 0)
  UNION ALL
  SELECT 'the refunds of a reservation differ from its refund entries', r.organization_id, r.id FROM r
    WHERE coalesce(r.refunded, 0) <> coalesce((SELECT sum(posted_change) FROM ledger_entry e
      WHERE e.reservation_id = r.id AND e.kind = 'refund'), 0)
  UNION ALL
  SELECT 'a job or chat is counted in another budget than that of its API key', r.organization_id, r.id FROM r
    JOIN api_key k ON k.id = r.key_id WHERE r.budget_id IS DISTINCT FROM coalesce(k.budget_of, k.id)
  UNION ALL
  SELECT 'the status of a job contradicts its reservation', r.organization_id, r.id FROM r
    WHERE (r.status = 'completed') <> (r.state = 'charged')
      OR (r.status IN ('failed', 'canceled')) <> (r.state = 'released')
  UNION ALL
  SELECT 'a completed job has no artifact', r.organization_id, r.id FROM r
    WHERE r.status = 'completed' AND r.files = '[]' AND jsonb_path_exists(r.outputs, '$[*] ? (!exists(@.takenFrom)).artifacts[*]')
  UNION ALL
  SELECT 'a job that was not charged has artifacts', r.organization_id, r.id FROM r
    WHERE r.status <> 'completed' AND r.files <> '[]'
  UNION ALL
  SELECT 'the outputs of a job differ from its artifacts', r.organization_id, r.id FROM r
    WHERE r.status = 'completed' AND r.files <> (
      SELECT coalesce(jsonb_agg(file ORDER BY file), '[]') FROM jsonb_path_query(r.outputs, '$[*] ? (!exists(@.takenFrom)).artifacts[*]') AS a (output),
        LATERAL jsonb_build_array(output->>'storageKey', output->>'sha256', (output->>'sizeBytes')::bigint) AS f (file)) $$;

-- Checks the spending of a budget on the days from `first_day` to `last_day` against the jobs and
-- chats of its API keys.
CREATE FUNCTION audit_budget(budget text, first_day date, last_day date)
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH bounds AS (SELECT first_day::timestamp AT TIME ZONE 'UTC' AS starts,
      (last_day + 1)::timestamp AT TIME ZONE 'UTC' AS ends),
    k AS MATERIALIZED (SELECT id FROM api_key WHERE id = budget OR budget_of = budget),
    r AS (
      SELECT x.created_at, x.state, x.amount, x.charged FROM k JOIN reservation x ON x.key_id = k.id AND x.kind = 'chat', bounds
        WHERE x.created_at >= starts AND x.created_at < ends
      UNION ALL
      SELECT x.created_at, x.state, x.amount, x.charged FROM k JOIN job j ON j.key_id = k.id
        JOIN reservation x ON x.id = j.id, bounds
        WHERE j.created_at >= starts AND j.created_at < ends)
  SELECT 'the spending of a budget differs from its reservations and charges',
    (SELECT organization_id FROM api_key WHERE id = budget), budget || ' ' || day
  FROM (SELECT day, -spent AS spent FROM budget_spend
      WHERE budget_id = budget AND day BETWEEN first_day AND last_day
    UNION ALL
    SELECT day, spent FROM archived_spend WHERE budget_id = budget AND day BETWEEN first_day AND last_day
    UNION ALL
    SELECT (created_at AT TIME ZONE 'UTC')::date, CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END
      FROM r) AS spending
  GROUP BY day HAVING sum(spent) <> 0 $$;

-- Checks the accounts against their open reservations, and the current six-hour window of the given
-- accounts; null checks the windows of all.
CREATE FUNCTION audit_accounts(account_ids text[])
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE sql STABLE AS $$
  SELECT 'the reserved credits of an account differ from its open reservations', a.organization_id, a.organization_id
    FROM account a
    LEFT JOIN (SELECT r.organization_id, sum(amount) AS open FROM reservation r WHERE state = 'reserved'
      GROUP BY 1) r USING (organization_id)
    WHERE a.reserved <> coalesce(r.open, 0)
  UNION ALL
  SELECT 'the use of a six-hour window differs from its reservations', a.organization_id, a.organization_id
    FROM account a
    WHERE (account_ids IS NULL OR a.organization_id = ANY (account_ids))
      -- The reservations of a window that is long over may be archived.
      AND a.window_started_at > clock_timestamp() - interval '7 days'
      AND a.window_used <> coalesce((
        SELECT sum(CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END) FROM reservation r
        WHERE r.kind = 'studio' AND r.organization_id = a.organization_id
          AND r.window_started_at = a.window_started_at), 0) $$;

-- Checks that open reservations have an open job, and that none waits too long for the sweeper. If a
-- reservation is more than 15 minutes overdue, the sweeper is not running.
CREATE FUNCTION audit_open()
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE sql STABLE AS $$
  SELECT 'an open Studio reservation has no open job', r.organization_id, r.id FROM reservation r
    WHERE r.kind = 'studio' AND r.state = 'reserved'
      AND NOT EXISTS (SELECT FROM job j WHERE j.id = r.id AND j.status = 'open')
  UNION ALL
  SELECT 'an open reservation has waited too long for the sweeper', r.organization_id, r.id FROM reservation r
    WHERE r.state = 'reserved' AND r.expires_at < clock_timestamp() - interval '15 minutes' $$;

-- View of the violations in all accounts and reservations, for operators and tests. It reads every
-- row, so it is slow in a large database.
CREATE VIEW ledger_audit AS
SELECT f->>'finding' AS finding, f->>'subject' AS subject
  FROM (SELECT organization_id FROM account UNION SELECT organization_id FROM ledger_entry) AS a,
    LATERAL audit_entries(a.organization_id, archive_end(a.organization_id), 2147483647) AS e,
    LATERAL jsonb_array_elements(e.findings) AS f
UNION ALL
SELECT finding, subject FROM audit_reservations(ARRAY(SELECT id FROM reservation))
UNION ALL
SELECT finding, subject FROM audit_accounts(NULL)
UNION ALL
SELECT f.finding, f.subject FROM account a, LATERAL audit_archive(a.organization_id) AS f
UNION ALL
SELECT f.finding, f.subject FROM (SELECT coalesce(budget_of, id) AS id FROM api_key
    UNION SELECT budget_id FROM budget_spend) AS k, LATERAL audit_budget(k.id, '2000-01-01', '2999-12-31') AS f;

CREATE OR REPLACE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER admin_action_append_only BEFORE UPDATE OR DELETE ON admin_action
  FOR EACH ROW EXECUTE FUNCTION reject_change();
