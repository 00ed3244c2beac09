-- Sums of closed UTC days, from which usage summaries and counts are made. A day is closed when it
-- is over and none of its reservations is open; the sweeper then sums it up (usage-sums.ts). A refund
-- marks its day as stale, and a stale day is read row by row until it is summed up again.

-- Sums the jobs and chats that an organization began on the days from `first_day` to `last_day`, by
-- their properties. `spent` is what they use of the budgets of their keys. The settings make Postgres
-- read ranges of indexes.
CREATE FUNCTION usage_of_days(account_id text, first_day date, last_day date)
RETURNS TABLE (day date, type text, model text, key_id text, status text, metadata jsonb, requests bigint,
  net bigint, input_tokens bigint, output_tokens bigint, spent bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET work_mem = '64MB'
SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  starts timestamptz := first_day::timestamp AT TIME ZONE 'UTC';
  ends timestamptz := (last_day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
  RETURN QUERY SELECT (x.created_at AT TIME ZONE 'UTC')::date, x.type, x.model, x.key_id, x.state::text, x.metadata, count(*),
    sum(coalesce(x.charged, 0) - coalesce(x.refunded, 0))::bigint, coalesce(sum(x.input_tokens), 0)::bigint,
    coalesce(sum(x.output_tokens), 0)::bigint,
    sum(CASE x.state WHEN 'reserved' THEN x.amount ELSE coalesce(x.charged, 0) END)::bigint
  -- A job and its reservation began at the same time, unless one of them was changed by hand.
  FROM (SELECT r.created_at, j.type, j.model, j.key_id, r.state, j.metadata, r.input_tokens, r.output_tokens, r.amount,
      r.charged, r.refunded
    FROM job j JOIN reservation r ON r.id = j.id
    WHERE j.organization_id = account_id AND j.created_at >= starts AND j.created_at < ends
    UNION ALL
    SELECT r.created_at, 'chat', r.model, r.key_id, r.state, r.metadata, r.input_tokens, r.output_tokens, r.amount,
      r.charged, r.refunded
    FROM reservation r
    WHERE r.kind = 'chat' AND r.id NOT LIKE 'job\_%' AND r.organization_id = account_id AND r.created_at >= starts AND r.created_at < ends) AS x
  GROUP BY 1, 2, 3, 4, 5, 6;
END $$;

-- Sums up a day of an organization, and returns whether it could: an open reservation of the day
-- prevents it. If the metadata differs so much that there would be more than `rows_max` rows, the day
-- is summed up without it. The row of `usage_closed_day` is locked first: a refund that comes
-- meanwhile waits, and then marks the day as stale.
CREATE FUNCTION close_usage_day(account_id text, closed_day date, rows_max integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE row_count bigint; with_metadata boolean := true;
BEGIN
  INSERT INTO usage_closed_day VALUES (account_id, closed_day, true, true)
    ON CONFLICT (organization_id, day) DO UPDATE SET stale = true;
  IF EXISTS (SELECT FROM reservation r WHERE r.state = 'reserved' AND r.organization_id = account_id
      AND (r.created_at AT TIME ZONE 'UTC')::date = closed_day) THEN
    RETURN false;
  END IF;
  LOOP
    DELETE FROM usage_day WHERE organization_id = account_id AND day = closed_day AND NOT archived;
    INSERT INTO usage_day
      SELECT account_id, closed_day, type, model, key_id, status, CASE WHEN with_metadata THEN metadata END, sum(requests),
        sum(net), sum(input_tokens), sum(output_tokens), false
      FROM usage_of_days(account_id, closed_day, closed_day) GROUP BY type, model, key_id, status, 7;
    GET DIAGNOSTICS row_count = ROW_COUNT;
    EXIT WHEN row_count <= rows_max OR NOT with_metadata;
    with_metadata := false;
  END LOOP;
  -- Each archived segment has added sums.
  WITH added AS (DELETE FROM usage_day WHERE organization_id = account_id AND day = closed_day AND archived RETURNING *)
  INSERT INTO usage_day
    SELECT account_id, closed_day, type, model, key_id, status, metadata, sum(requests), sum(net), sum(input_tokens),
      sum(output_tokens), true
    FROM added GROUP BY type, model, key_id, status, metadata;
  UPDATE usage_closed_day c SET stale = false, has_metadata = with_metadata
    WHERE c.organization_id = account_id AND c.day = closed_day;
  RETURN true;
END $$;

-- Lists the days that can be summed up: days before `today` on which keys spent credits, from
-- `first_day` on, and stale days.
CREATE FUNCTION usage_days_to_close(first_day date, today date)
RETURNS TABLE (organization_id text, day date) LANGUAGE sql STABLE AS $$
  SELECT c.organization_id, c.day FROM usage_closed_day c WHERE c.stale AND c.day < today
  UNION
  SELECT k.organization_id, b.day FROM budget_spend b JOIN api_key k ON k.id = b.budget_id
    WHERE b.day >= first_day AND b.day < today AND NOT EXISTS (SELECT FROM usage_closed_day c
      WHERE c.organization_id = k.organization_id AND c.day = b.day) $$;
