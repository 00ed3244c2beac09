-- Sums of the ledger entries of closed UTC days, by the day on which they were booked. A day is summed
-- up once, when it is over, and never changes: a refund counts on its own day, not on that of its job.
-- The archive removes only entries that are summed up.

-- Returns the charges, releases and refunds of an account from one ledger entry until before another
-- one, with the properties of their jobs and chats.
CREATE FUNCTION booked_entries(account_id text, first_entry bigint, end_entry bigint)
RETURNS TABLE (day date, type text, model text, key_id text, status text, requests bigint, net bigint,
  input_tokens bigint, output_tokens bigint, cost bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT (e.created_at AT TIME ZONE 'UTC')::date, coalesce(j.type, 'chat'), coalesce(j.model, r.model),
    coalesce(j.key_id, r.key_id), r.state::text, (e.kind <> 'refund')::integer::bigint, -e.posted_change,
    CASE WHEN e.kind <> 'refund' THEN coalesce(r.input_tokens, 0) ELSE 0 END,
    CASE WHEN e.kind <> 'refund' THEN coalesce(r.output_tokens, 0) ELSE 0 END,
    -- A charge by an earlier version has no cost: its price is used.
    CASE WHEN e.kind = 'charge' THEN coalesce(r.cost, r.charged)::bigint ELSE 0 END
  FROM ledger_entry e JOIN reservation r ON r.id = e.reservation_id LEFT JOIN job j ON j.id = r.id
  WHERE e.organization_id = account_id AND e.sequence >= first_entry AND e.sequence < end_entry
    AND e.kind IN ('charge', 'release', 'refund')
    -- A Studio reservation whose workflow never began a job is not usage.
    AND (r.kind = 'chat' OR j.id IS NOT NULL);
END $$;

-- Sums up the next day of an account that is over, and returns whether there was one.
CREATE FUNCTION close_booked_day(account_id text, today date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE first_entry bigint; end_entry bigint; closed_day date;
BEGIN
  INSERT INTO booked_account (organization_id) VALUES (account_id) ON CONFLICT DO NOTHING;
  SELECT next_sequence INTO first_entry FROM booked_account WHERE organization_id = account_id FOR UPDATE;
  SELECT (e.created_at AT TIME ZONE 'UTC')::date INTO closed_day FROM ledger_entry e
    WHERE e.organization_id = account_id AND e.sequence >= first_entry ORDER BY e.sequence LIMIT 1;
  IF closed_day IS NULL OR closed_day >= today THEN RETURN false; END IF;
  end_entry := coalesce(
    (SELECT e.sequence FROM ledger_entry e WHERE e.organization_id = account_id AND e.sequence >= first_entry
      AND e.created_at >= (closed_day + 1)::timestamp AT TIME ZONE 'UTC' ORDER BY e.sequence LIMIT 1),
    (SELECT max(e.sequence) + 1 FROM ledger_entry e WHERE e.organization_id = account_id));
  INSERT INTO booked_day
    SELECT account_id, closed_day, b.type, b.model, b.key_id, b.status, sum(b.requests), sum(b.net), sum(b.input_tokens),
      sum(b.output_tokens), sum(b.cost)
    FROM booked_entries(account_id, first_entry, end_entry) AS b GROUP BY b.type, b.model, b.key_id, b.status;
  UPDATE booked_account SET next_sequence = end_entry, granted = granted + coalesce((SELECT sum(e.posted_change)
      FROM ledger_entry e WHERE e.organization_id = account_id AND e.sequence >= first_entry AND e.sequence < end_entry
        AND e.kind = 'grant'), 0)
    WHERE organization_id = account_id;
  RETURN true;
END $$;

-- Lists the accounts with a day that can be summed up: a day before `today` with a ledger entry.
CREATE FUNCTION accounts_to_close(today date) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT a.organization_id FROM account a LEFT JOIN booked_account b USING (organization_id),
    LATERAL (SELECT e.created_at FROM ledger_entry e WHERE e.organization_id = a.organization_id
      AND e.sequence >= coalesce(b.next_sequence, 1) ORDER BY e.sequence LIMIT 1) AS e
  WHERE a.sequence >= coalesce(b.next_sequence, 1) AND e.created_at < today::timestamp AT TIME ZONE 'UTC' $$;

-- Checks the sums of an account's closed days against its ledger: what was granted, less what was
-- booked, is the balance behind the last summed entry. Entries of earlier archives are summed up from
-- the start, so the check begins behind them.
CREATE FUNCTION audit_booked(account_id text) RETURNS TABLE (finding text, organization_id text, subject text)
LANGUAGE sql STABLE AS $$
  WITH b AS (SELECT * FROM booked_account x WHERE x.organization_id = account_id),
    balance AS (SELECT coalesce(
      (SELECT e.posted_after FROM ledger_entry e, b WHERE e.organization_id = account_id AND e.sequence = b.next_sequence - 1),
      (SELECT s.posted FROM archive_segment s, b WHERE s.organization_id = account_id AND s.sequence = b.next_sequence - 1)) AS posted)
  SELECT 'the sums of booked days differ from the ledger entries', account_id, account_id FROM b, balance
  WHERE b.next_sequence > coalesce((SELECT max(s.sequence) FROM archive_segment s WHERE s.organization_id = account_id), 0)
    AND b.granted - coalesce((SELECT sum(d.net) FROM booked_day d WHERE d.organization_id = account_id), 0) <> balance.posted $$;
