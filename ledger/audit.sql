-- View that checks invariants of the ledger. Each row is a violation: the invariant and the id of
-- the row that violates it (docs/guarantees.md).

CREATE VIEW ledger_audit AS
SELECT 'the totals of an account differ from its ledger entries' AS finding, a.organization_id AS subject
  FROM account a
  LEFT JOIN (SELECT organization_id, sum(posted_change) AS posted, sum(reserved_change) AS reserved,
      max(sequence) AS last, count(*) AS entries FROM ledger_entry GROUP BY 1) e USING (organization_id)
  WHERE (a.posted, a.reserved, a.sequence)
      IS DISTINCT FROM (coalesce(e.posted, 0), coalesce(e.reserved, 0), coalesce(e.last, 0))
    OR coalesce(e.last, 0) <> coalesce(e.entries, 0)
UNION ALL
SELECT 'the reserved credits of an account differ from its open reservations', a.organization_id FROM account a
  LEFT JOIN (SELECT organization_id, sum(amount) AS open FROM reservation WHERE state = 'reserved'
    GROUP BY 1) r USING (organization_id)
  WHERE a.reserved <> coalesce(r.open, 0)
UNION ALL
SELECT 'a reservation differs from its charge or release entry', r.id FROM reservation r
  LEFT JOIN ledger_entry s
    ON s.organization_id = r.organization_id AND s.idempotency_key = 'settle:' || r.id
  WHERE (r.state = 'reserved') <> (s.sequence IS NULL) OR -s.reserved_change <> r.amount
    OR (s.kind = 'charge') <> (r.state = 'charged') OR -s.posted_change <> coalesce(r.charged, 0)
UNION ALL
SELECT 'the refunds of a reservation differ from its refund entries', id FROM (
    SELECT id, -refunded AS refunded FROM reservation WHERE refunded IS NOT NULL
    UNION ALL
    SELECT reservation_id, posted_change FROM ledger_entry WHERE kind = 'refund') AS refunds
  GROUP BY id HAVING sum(refunded) <> 0
UNION ALL
SELECT 'the totals of a ledger entry do not follow from the previous entry', organization_id || ':' || sequence FROM (
    SELECT *, lag(posted_after, 1, 0::bigint) OVER chain AS posted_before,
      lag(reserved_after, 1, 0::bigint) OVER chain AS reserved_before
    FROM ledger_entry WINDOW chain AS (PARTITION BY organization_id ORDER BY sequence)) e
  WHERE posted_after <> posted_before + posted_change
    OR reserved_after <> reserved_before + reserved_change OR reserved_after < 0
UNION ALL
SELECT 'something other than the charge of a chat made a balance negative', e.organization_id || ':' || e.sequence
  FROM ledger_entry e LEFT JOIN reservation r ON r.id = e.reservation_id
  WHERE e.reserved_after > e.posted_after AND e.reserved_change > e.posted_change
    AND (e.kind = 'charge' AND r.kind = 'chat') IS NOT TRUE
UNION ALL
SELECT 'the use of a six-hour window differs from its reservations', a.organization_id FROM account a
  LEFT JOIN (SELECT organization_id, window_started_at,
      sum(CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END) AS used
    FROM reservation WHERE kind = 'studio' GROUP BY 1, 2) r
    ON r.organization_id = a.organization_id AND r.window_started_at = a.window_started_at
  WHERE a.window_used <> coalesce(r.used, 0)
UNION ALL
SELECT 'the spending of a budget differs from its reservations and charges', budget_id || ' ' || day FROM (
    SELECT budget_id, day, -spent AS spent FROM budget_spend
    UNION ALL
    SELECT budget_id, (created_at AT TIME ZONE 'UTC')::date,
        CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END
      FROM reservation WHERE budget_id IS NOT NULL) AS spending
  GROUP BY budget_id, day HAVING sum(spent) <> 0
UNION ALL
SELECT 'a job or chat is counted in another budget than that of its API key', r.id FROM reservation r
  LEFT JOIN job j USING (id) JOIN api_key k ON k.id = coalesce(j.key_id, r.key_id)
  WHERE r.budget_id IS DISTINCT FROM coalesce(k.budget_of, k.id)
UNION ALL
SELECT 'the status of a job contradicts its reservation', j.id FROM job j JOIN reservation r ON r.id = j.id
  WHERE (j.status = 'completed') <> (r.state = 'charged')
    OR (j.status IN ('failed', 'canceled')) <> (r.state = 'released')
UNION ALL
SELECT 'a completed job has no artifact', j.id FROM job j
  WHERE j.status = 'completed' AND jsonb_path_exists(j.outputs, '$[*].artifacts[*]')
    AND NOT EXISTS (SELECT FROM artifact f WHERE f.job_id = j.id);

CREATE OR REPLACE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE ON ledger_entry
  FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE OR REPLACE TRIGGER admin_action_append_only BEFORE UPDATE OR DELETE ON admin_action
  FOR EACH ROW EXECUTE FUNCTION reject_change();
