-- Checks of the ledger's invariants (docs/guarantees.md). Each finding is a row with the name of the
-- invariant, the organization, and the id of the row that violates it. The same functions check one
-- page of an account, the rows that changed since the last audit, and all rows (invariants.ts).

-- Checks at most `entries_max` ledger entries of an account behind the last checked entry, and, behind
-- the last entry, the totals of the account. `checked` is {sequence, posted, reserved, postedAfter,
-- reservedAfter}: the last checked entry, the sums of the changes up to it, and its totals, which
-- equal the sums if all entries are right. `reservation_ids` are the reservations of the entries, or,
-- without `with_reservations`, only the highest of their ids. Because idempotency keys are unique, an entry whose key
-- is not that of its kind is a second one.
CREATE FUNCTION audit_entries(account_id text, INOUT checked jsonb, entries_max integer, with_reservations boolean,
  OUT is_last boolean, OUT reservation_ids text[], OUT findings jsonb) LANGUAGE sql STABLE
SET enable_seqscan = off SET work_mem = '64MB' AS $$
  WITH c AS MATERIALIZED (SELECT * FROM jsonb_to_record(checked) AS x(sequence bigint, posted bigint, reserved bigint,
      "postedAfter" bigint, "reservedAfter" bigint)),
    page AS NOT MATERIALIZED (SELECT e.* FROM ledger_entry e
      WHERE e.organization_id = account_id AND e.sequence > (checked->>'sequence')::bigint
      ORDER BY e.sequence LIMIT entries_max),
    chain AS NOT MATERIALIZED (SELECT e.sequence, e.kind, e.reservation_id, e.posted_change, e.reserved_change,
        e.posted_after - e.posted_change <> lag(e.posted_after, 1, (checked->>'postedAfter')::bigint) OVER w
          OR e.reserved_after - e.reserved_change <> lag(e.reserved_after, 1, (checked->>'reservedAfter')::bigint) OVER w
          OR e.reserved_after < 0 AS is_unsteady,
        e.reserved_after > e.posted_after AND e.reserved_change > e.posted_change AND e.kind <> 'charge' AS is_overdraft,
        e.kind IN ('reserve', 'charge', 'release') AND e.idempotency_key
          <> CASE WHEN e.kind = 'reserve' THEN 'reserve:' ELSE 'settle:' END || e.reservation_id AS is_second
      FROM page e WINDOW w AS (ORDER BY e.sequence)),
    ends AS MATERIALIZED (SELECT count(*) < entries_max AS is_last, max(sequence) AS sequence,
        coalesce(sum(posted_change), 0)::bigint AS posted, coalesce(sum(reserved_change), 0)::bigint AS reserved,
        max(sequence) - (checked->>'sequence')::bigint <> count(*) AS has_gap, max(reservation_id) AS last_reservation,
        bool_or(is_unsteady OR is_overdraft OR is_second) AS has_violation
      FROM chain),
    state AS MATERIALIZED (SELECT coalesce(e.sequence, c.sequence) AS sequence, c.posted + e.posted AS posted,
        c.reserved + e.reserved AS reserved, coalesce(l.posted_after, c."postedAfter") AS "postedAfter",
        coalesce(l.reserved_after, c."reservedAfter") AS "reservedAfter"
      FROM c CROSS JOIN ends e LEFT JOIN ledger_entry l ON l.organization_id = account_id AND l.sequence = e.sequence),
    found AS (
      SELECT 'the totals of an account differ from its ledger entries' AS finding, account_id AS subject
        FROM ends e CROSS JOIN state s LEFT JOIN account a ON a.organization_id = account_id
        WHERE e.has_gap OR e.is_last
          AND (a.posted, a.reserved, a.sequence) IS DISTINCT FROM (s.posted, s.reserved, s.sequence)
      UNION ALL
      -- The page is read again only if it has a violation.
      SELECT f.finding, f.subject FROM chain, LATERAL (VALUES
          ('the totals of a ledger entry do not follow from the previous entry', account_id || ':' || sequence, is_unsteady),
          ('something other than a charge made a balance negative', account_id || ':' || sequence, is_overdraft),
          (CASE WHEN kind = 'reserve' THEN 'a reservation does not have exactly one reserve entry'
              ELSE 'a reservation was settled more than once' END, reservation_id, is_second))
          AS f (finding, subject, is_violated)
        WHERE (SELECT has_violation FROM ends) AND f.is_violated)
  SELECT to_jsonb(s), e.is_last,
    CASE WHEN with_reservations THEN ARRAY(SELECT DISTINCT reservation_id FROM page WHERE reservation_id IS NOT NULL)
      ELSE array_remove(ARRAY[e.last_reservation], NULL) END,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('finding', finding, 'subject', subject)), '[]') FROM found)
  FROM ends e CROSS JOIN state s $$;

-- Checks reservations against their ledger entries, API keys, jobs and artifacts: those in `ids`, or, if
-- `ids` is null, those whose ids are behind `after` and not behind `upto`. Entries of such ids that have
-- no reservation are found too. The settings make Postgres read ranges of indexes, and plan each call
-- for its values. It joins them by hashing, also where it expects few rows: nested loops over a page
-- would take minutes.
CREATE FUNCTION audit_reservations(ids text[], after text, upto text)
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_mergejoin = off SET enable_nestloop = off SET work_mem = '64MB' SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH r AS (SELECT * FROM reservation x
      WHERE CASE WHEN ids IS NULL THEN x.id > after AND x.id <= upto ELSE x.id = ANY (ids) END),
    j AS MATERIALIZED (SELECT x.id, x.organization_id, x.key_id, x.status, x.outputs, x.metadata FROM job x
      WHERE CASE WHEN ids IS NULL THEN x.id > after AND x.id <= upto ELSE x.id = ANY (ids) END),
    e AS (SELECT * FROM ledger_entry x WHERE CASE WHEN ids IS NULL
        THEN x.idempotency_key > 'reserve:' || after AND x.idempotency_key <= 'reserve:' || upto
        ELSE x.idempotency_key = ANY (ARRAY(SELECT 'reserve:' || id FROM unnest(ids) AS id)) END),
    s AS (SELECT * FROM ledger_entry x WHERE CASE WHEN ids IS NULL
        THEN x.idempotency_key > 'settle:' || after AND x.idempotency_key <= 'settle:' || upto
        ELSE x.idempotency_key = ANY (ARRAY(SELECT 'settle:' || id FROM unnest(ids) AS id)) END),
    f AS (SELECT x.reservation_id, max(x.organization_id) AS organization_id, max(x.sequence) AS sequence,
        sum(x.posted_change) AS amount
      FROM ledger_entry x WHERE x.kind = 'refund' AND CASE WHEN ids IS NULL
        THEN x.reservation_id > after AND x.reservation_id <= upto ELSE x.reservation_id = ANY (ids) END
      GROUP BY x.reservation_id),
    -- Charges of jobs, from the lines of their outputs.
    l AS (SELECT x.id, sum(x.quantity * x.price - x.discount)::bigint AS charged,
        sum(x.quantity * x.unit_cost - x.cost_discount)::bigint AS cost,
        nullif(array_agg(DISTINCT x.row ORDER BY x.row) FILTER (WHERE x.row IS NOT NULL), '{}') AS price_rows,
        bool_or(x.price <> CASE WHEN x.row IS NULL THEN x.unit_cost ELSE coalesce(book_price(p, x.unit_cost, x.unit, 0, 0), -1) END
          OR x.discount NOT BETWEEN 0 AND x.quantity * x.price OR p.organization_id <> x.organization_id) AS is_wrong
      FROM (SELECT j.id, j.organization_id, line->>'unit' AS unit, (line->>'quantity')::bigint AS quantity,
          (line->>'unitPriceMicro')::bigint AS price, (line->>'discountMicro')::bigint AS discount,
          (line->>'unitCostMicro')::bigint AS unit_cost, (line->>'costDiscountMicro')::bigint AS cost_discount, line->>'row' AS row
        FROM j, jsonb_path_query(j.outputs, '$[*].line') AS line WHERE j.status = 'completed') AS x
        LEFT JOIN price_row p ON p.id = x.row
      GROUP BY x.id),
    x AS (SELECT r.id, coalesce(r.organization_id, e.organization_id, s.organization_id, f.organization_id) AS organization_id,
        coalesce(e.sequence, s.sequence, f.sequence) AS sequence, r.id IS NULL AS is_absent,
        (e.kind = 'reserve' AND e.organization_id = r.organization_id AND e.reserved_change = r.amount) IS NOT TRUE
          AND r.id IS NOT NULL AS is_unreserved,
        (r.state = 'reserved') <> (s.sequence IS NULL) OR s.organization_id <> r.organization_id
          OR -s.reserved_change <> r.amount OR (s.kind = 'charge') <> (r.state = 'charged')
          OR -s.posted_change <> coalesce(r.charged, 0) AS is_unsettled,
        coalesce(r.refunded, 0) <> coalesce(f.amount, 0) AND r.id IS NOT NULL AS is_unrefunded,
        s.kind = 'charge' AND NOT coalesce(s.price_rows, '{}') <@ coalesce(e.price_rows, '{}') AS is_repriced,
        -- A reservation that a process of an earlier version charged has no cost.
        r.state = 'charged' AND r.cost IS NOT NULL AND (
          r.price_rows IS DISTINCT FROM s.price_rows OR p.organization_id <> r.organization_id
          OR CASE WHEN r.kind = 'studio' THEN l.is_wrong OR r.charged <> coalesce(l.charged, 0) OR r.cost <> coalesce(l.cost, 0)
              OR NOT coalesce(r.price_rows <@ l.price_rows AND r.price_rows @> l.price_rows, r.price_rows IS NULL AND l.price_rows IS NULL)
            WHEN r.price_rows IS NULL THEN r.charged <> r.cost
            ELSE (r.charged = book_price(p, r.cost, NULL, r.input_tokens, r.output_tokens)) IS NOT TRUE END) AS is_mispriced,
        k.id IS NOT NULL AND (r.budget_id IS DISTINCT FROM coalesce(k.budget_of, k.id) OR r.further_budgets IS DISTINCT FROM
          further_budgets(r.organization_id, coalesce(j.metadata, r.metadata)->>'$endUser')) AS is_misbudgeted,
        -- A chat job that failed or was canceled is charged for what was delivered.
        CASE r.kind WHEN 'chat' THEN j.status = 'completed' AND r.state <> 'charged' OR (j.status = 'open') <> (r.state = 'reserved')
          ELSE (j.status = 'completed') <> (r.state = 'charged')
            OR (j.status IN ('failed', 'canceled')) <> (r.state = 'released') END AS is_contradicted
      -- The keys of the entries are those of their reservations (audit_entries).
      FROM r FULL JOIN e ON e.reservation_id = r.id FULL JOIN s ON s.reservation_id = r.id
        FULL JOIN f ON f.reservation_id = r.id LEFT JOIN j ON j.id = r.id LEFT JOIN l ON l.id = r.id
        LEFT JOIN price_row p ON p.id = r.price_rows[1]
        LEFT JOIN api_key k ON k.id = coalesce(j.key_id, r.key_id)),
    -- Artifacts of steps that were taken over belong to another job.
    o AS (SELECT j.id, file->>'storageKey' AS storage_key, file->>'sha256' AS sha256, (file->>'sizeBytes')::bigint AS size_bytes,
        count(*) AS times
      FROM j, jsonb_path_query(j.outputs, '$[*] ? (!exists(@.takenFrom)).artifacts[*]') AS file WHERE j.status = 'completed'
      GROUP BY 1, 2, 3, 4),
    a AS (SELECT * FROM artifact x
      WHERE CASE WHEN ids IS NULL THEN x.job_id > after AND x.job_id <= upto ELSE x.job_id = ANY (ids) END)
  SELECT v.finding, x.organization_id, v.subject FROM x, LATERAL (VALUES
      ('a ledger entry has no reservation', x.organization_id || ':' || sequence, is_absent),
      ('a reservation does not have exactly one reserve entry', id, is_unreserved),
      ('a reservation differs from its charge or release entry', id, is_unsettled),
      ('the refunds of a reservation differ from its refund entries', id, is_unrefunded),
      ('a charge has another price than its reservation', id, is_repriced),
      ('a charge differs from its quantity and its price', id, is_mispriced),
      ('a job or chat is counted in other budgets than those of its API key and end user', id, is_misbudgeted),
      ('the status of a job contradicts its reservation', id, is_contradicted)) AS v (finding, subject, is_violated)
    WHERE (is_absent OR is_unreserved OR is_unsettled OR is_unrefunded OR is_repriced OR is_mispriced OR is_misbudgeted OR is_contradicted) AND v.is_violated
  UNION ALL
  SELECT DISTINCT CASE WHEN j.status <> 'completed' THEN 'a job that was not charged has artifacts'
      WHEN (SELECT count(*) FROM artifact x WHERE x.job_id = j.id) > 0 THEN 'the outputs of a job differ from its artifacts'
      ELSE 'a completed job has no artifact' END, j.organization_id, j.id
    FROM o FULL JOIN a ON a.job_id = o.id AND a.storage_key = o.storage_key AND a.sha256 = o.sha256
        AND a.size_bytes = o.size_bytes
      JOIN j ON j.id = coalesce(o.id, a.job_id)
    WHERE o.times IS DISTINCT FROM 1 OR a.job_id IS NULL;
END $$;

-- Returns the first and the last UTC day of an account's jobs, chats and sums.
CREATE FUNCTION audited_days(account_id text, OUT first_day date, OUT last_day date) LANGUAGE sql STABLE AS $$
  WITH k AS (SELECT id FROM api_key WHERE organization_id = account_id),
    begun AS (SELECT min(created_at) AS first, max(created_at) AS last FROM reservation
        WHERE organization_id = account_id AND kind = 'chat'
      UNION ALL SELECT min(created_at), max(created_at) FROM job WHERE organization_id = account_id)
  SELECT min(first), max(last) FROM (
    SELECT (first AT TIME ZONE 'UTC')::date AS first, (last AT TIME ZONE 'UTC')::date AS last FROM begun
    UNION ALL SELECT min(day), max(day) FROM usage_closed_day WHERE organization_id = account_id
    UNION ALL SELECT min(day), max(day) FROM k JOIN budget_spend b ON b.budget_id = k.id
    UNION ALL SELECT min(day), max(day) FROM k JOIN archived_spend b ON b.budget_id = k.id) AS days $$;

-- Checks the sums of closed days, and the spending of budgets, against the jobs and chats that the
-- organization of an account began on the days from `first_day` to `last_day`.
CREATE FUNCTION audit_days(account_id text, first_day date, last_day date)
RETURNS TABLE (finding text, organization_id text, subject text) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET work_mem = '64MB' SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH u AS MATERIALIZED (SELECT * FROM usage_of_days(account_id, first_day, last_day)),
    c AS MATERIALIZED (SELECT day, has_metadata FROM usage_closed_day
      WHERE organization_id = account_id AND NOT stale AND day BETWEEN first_day AND last_day),
    made AS MATERIALIZED (SELECT day, type, model, key_id, status, CASE WHEN has_metadata THEN metadata END AS metadata,
        sum(requests)::bigint AS requests, sum(net)::bigint AS net, sum(input_tokens)::bigint AS input_tokens,
        sum(output_tokens)::bigint AS output_tokens
      FROM u JOIN c USING (day) GROUP BY 1, 2, 3, 4, 5, 6),
    stored AS MATERIALIZED (SELECT day, type, model, key_id, status, metadata, requests, net, input_tokens, output_tokens
      FROM usage_day JOIN c USING (day) WHERE organization_id = account_id AND NOT archived AND day BETWEEN first_day AND last_day),
    differing AS ((TABLE made EXCEPT ALL TABLE stored) UNION ALL (TABLE stored EXCEPT ALL TABLE made)),
    k AS MATERIALIZED (SELECT id, coalesce(budget_of, id) AS budget FROM api_key WHERE organization_id = account_id)
  SELECT DISTINCT 'the sums of a closed day differ from its jobs and chats', account_id, account_id || ' ' || day FROM differing
  UNION ALL
  SELECT 'the spending of a budget differs from its reservations and charges', account_id, budget || ' ' || day FROM (
      SELECT k.budget, day, -spent AS spent FROM k JOIN budget_spend b ON b.budget_id = k.id AND day BETWEEN first_day AND last_day
      UNION ALL
      SELECT b.budget_id, day, -spent FROM budget_spend b WHERE b.budget_id LIKE 'org\_%' AND b.budget_id COLLATE "C" > account_id || '/'
        AND b.budget_id COLLATE "C" < account_id || '0' AND day BETWEEN first_day AND last_day
      UNION ALL
      SELECT k.budget, day, spent FROM k JOIN archived_spend b ON b.budget_id = k.id AND day BETWEEN first_day AND last_day
      UNION ALL
      SELECT b.budget_id, day, spent FROM archived_spend b WHERE b.budget_id LIKE 'org\_%' AND b.budget_id COLLATE "C" > account_id || '/'
        AND b.budget_id COLLATE "C" < account_id || '0' AND day BETWEEN first_day AND last_day
      UNION ALL
      SELECT end_user_budget(account_id, u.metadata->>'$endUser'), day, spent FROM u WHERE u.metadata ? '$endUser'
      UNION ALL
      SELECT coalesce(k.budget, u.key_id), day, spent FROM u LEFT JOIN k ON k.id = u.key_id) AS spending
    GROUP BY budget, day HAVING sum(spent) <> 0;
END $$;

-- Checks the accounts against their open reservations, and the current six-hour window of the given
-- accounts; null checks the windows of all, and finds spending of unknown budgets.
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
          AND r.window_started_at = a.window_started_at), 0)
  UNION ALL
  SELECT 'the spending of a browser token differs from its reservations', t.organization_id, t.id FROM browser_token t
    WHERE (account_ids IS NULL OR t.organization_id = ANY (account_ids)) AND t.spent_micro <> (
      SELECT coalesce(sum(CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END), 0)
        FROM reservation r WHERE r.token_id = t.id)
  UNION ALL
  SELECT 'the spending of a budget differs from its reservations and charges', NULL, b.budget_id || ' ' || b.day
    FROM budget_spend b
    WHERE account_ids IS NULL AND b.spent <> 0 AND NOT EXISTS (SELECT FROM api_key k WHERE k.id = b.budget_id)
      AND NOT EXISTS (SELECT FROM account a WHERE b.budget_id LIKE '%/%' AND a.organization_id = split_part(b.budget_id, '/', 1)) $$;

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
-- row in one statement, so it needs time and memory in a large database.
CREATE VIEW ledger_audit AS
SELECT f->>'finding' AS finding, f->>'subject' AS subject
  FROM (SELECT organization_id FROM account UNION SELECT organization_id FROM ledger_entry) AS a,
    LATERAL audit_entries(a.organization_id, archive_end(a.organization_id), 2147483647, false) AS e,
    LATERAL jsonb_array_elements(e.findings) AS f
UNION ALL
SELECT finding, subject FROM audit_reservations(NULL, '', (SELECT max(id) FROM (SELECT max(id) FROM reservation
  UNION ALL SELECT max(reservation_id) FROM ledger_entry) AS x (id)))
UNION ALL
SELECT finding, subject FROM audit_accounts(NULL)
UNION ALL
SELECT f.finding, f.subject FROM account a, LATERAL audit_archive(a.organization_id) AS f
UNION ALL
SELECT f.finding, f.subject FROM account a, LATERAL audited_days(a.organization_id) AS d,
  LATERAL audit_days(a.organization_id, d.first_day, d.last_day) AS f;

CREATE OR REPLACE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER admin_action_append_only BEFORE UPDATE OR DELETE ON admin_action
  FOR EACH ROW EXECUTE FUNCTION reject_change();
