-- Account notices about low balances and key limits. The sweeper creates the notices, so that
-- transactions that change credits need not do it. They are delivered as webhooks.

-- Records that the limit of a key has rejected a request today.
CREATE FUNCTION record_budget_rejection(holder api_key) RETURNS void LANGUAGE sql AS $$
  INSERT INTO budget_rejection VALUES (holder.id, holder.limit_micro,
    (clock_timestamp() AT TIME ZONE 'UTC')::date) ON CONFLICT DO NOTHING
$$;

-- Returns the key limits of an organization for which a notice is due: `key.limit.near` if at least
-- 80 % is used, and `key.limit.reached` if all is used or the limit has rejected a request. Omits
-- limits of zero, and limits that no valid key has.
CREATE FUNCTION due_limit_notices(of_organization text)
RETURNS TABLE (key_id text, period text, type text, body jsonb) LANGUAGE sql AS $$
  SELECT k.id, due.period, due.type, b.budget || jsonb_build_object('keyId', k.id, 'name', k.name)
  FROM api_key k
    CROSS JOIN LATERAL budget_period(k.limit_per, clock_timestamp()) AS p
    CROSS JOIN LATERAL (SELECT key_budget_state(k, NULL) AS budget) AS b
    CROSS JOIN LATERAL (SELECT
      concat_ws(' ', p.starts, k.limit_per, k.limit_micro) AS period,
      CASE WHEN (b.budget->>'used')::bigint >= k.limit_micro OR EXISTS (
          SELECT FROM budget_rejection r WHERE r.budget_id = k.id AND r.limit_micro = k.limit_micro
            AND r.day >= p.starts AND (p.ends IS NULL OR r.day < p.ends)) THEN 'key.limit.reached'
        WHEN (b.budget->>'used')::bigint >= k.limit_micro * 0.8 THEN 'key.limit.near'
      END AS type) AS due
  WHERE k.organization_id = of_organization AND k.limit_micro > 0 AND due.type IS NOT NULL
    AND EXISTS (SELECT FROM api_key u
      WHERE u.organization_id = k.organization_id AND coalesce(u.budget_of, u.id) = k.id
        AND u.revoked_at IS NULL AND (u.expires_at IS NULL OR u.expires_at > clock_timestamp()))
    -- A key gets no `key.limit.near` after `key.limit.reached` in the same period.
    AND NOT EXISTS (SELECT FROM account_notice n WHERE n.key_id = k.id AND n.period = due.period
      AND n.type IN (due.type, 'key.limit.reached'))
$$;

-- Returns the end users of an organization for whom a notice is due, as `due_limit_notices` does for keys. The
-- marks of reservations (ledger/end-user-limits.sql) keep the sweeper from reading all end users.
CREATE FUNCTION due_end_user_notices(of_organization text)
RETURNS TABLE (end_user text, period text, type text, body jsonb) LANGUAGE sql AS $$
  SELECT DISTINCT ON (m.end_user, due.period) m.end_user, due.period, due.type, b.budget - 'verdict' || jsonb_build_object('endUser', m.end_user)
  FROM end_user_mark m
    CROSS JOIN LATERAL limits_of_end_user(m.organization_id, m.end_user) AS l
    CROSS JOIN LATERAL budget_period(l.limit_per, clock_timestamp()) AS p
    CROSS JOIN LATERAL (SELECT end_user_budget_state(l, end_user_budget(m.organization_id, m.end_user), NULL) AS budget) AS b
    CROSS JOIN LATERAL (SELECT concat_ws(' ', p.starts, l.limit_per, l.limit_micro) AS period,
      CASE WHEN m.rejected OR (b.budget->>'used')::bigint >= l.limit_micro THEN 'end_user.limit.reached'
        WHEN (b.budget->>'used')::bigint >= l.limit_micro * 0.8 THEN 'end_user.limit.near' END AS type) AS due
  WHERE m.organization_id = of_organization AND (m.limit_micro, m.limit_per, m.starts) = (l.limit_micro, l.limit_per, p.starts)
    AND due.type IS NOT NULL
    AND NOT EXISTS (SELECT FROM account_notice n WHERE n.organization_id = of_organization AND n.end_user = m.end_user
      AND n.period = due.period AND n.type IN (due.type, 'end_user.limit.reached'))
  ORDER BY m.end_user, due.period, due.type DESC
$$;

-- Creates the due account notices with their webhooks; the relay starts the deliveries. A balance
-- notice is due when the balance falls to the threshold, and is not repeated until the balance has
-- been above it. Reservations of running jobs are not deducted, because failed jobs would make the
-- balance fall and rise again. A lock allows only one execution at a time, because a second, slower
-- execution would write outdated balances.
CREATE FUNCTION make_account_notices() RETURNS void LANGUAGE plpgsql AS $$
DECLARE types text[] := '{account.balance.low,key.limit.near,key.limit.reached,end_user.limit.near,end_user.limit.reached}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('make_account_notices')) THEN RETURN; END IF;
  WITH address AS (
    SELECT o.organization_id, a.* FROM (
        SELECT organization_id, url FROM account_notice_target WHERE url IS NOT NULL
        UNION SELECT e.organization_id, t.url
        FROM webhook_endpoint e LEFT JOIN account_notice_target t USING (organization_id)) AS o
      CROSS JOIN LATERAL webhook_addresses(o.organization_id, o.url, types, '') AS a
    WHERE a.events && types),
  turned AS (
    UPDATE account_notice_target t SET balance_is_low = NOT t.balance_is_low FROM account a
    WHERE a.organization_id = t.organization_id AND t.balance_is_low <> (a.posted <= t.low_balance_micro)
      AND EXISTS (SELECT FROM address x
        WHERE x.organization_id = t.organization_id AND 'account.balance.low' = ANY (x.events))
    RETURNING t.organization_id, t.balance_is_low, a.posted, t.low_balance_micro),
  due AS (
    SELECT organization_id, NULL AS key_id, NULL AS end_user, NULL AS period, 'account.balance.low' AS type,
      jsonb_build_object('total', posted, 'threshold', low_balance_micro) AS body
    FROM turned WHERE balance_is_low
    UNION ALL
    SELECT o.organization_id, l.key_id, l.end_user, l.period, l.type, l.body
    FROM (SELECT DISTINCT organization_id FROM address) AS o
      CROSS JOIN LATERAL (SELECT key_id, NULL AS end_user, period, type, body FROM due_limit_notices(o.organization_id)
        UNION ALL SELECT NULL, end_user, period, type, body FROM due_end_user_notices(o.organization_id)) AS l
    WHERE EXISTS (SELECT FROM address x WHERE x.organization_id = o.organization_id AND l.type = ANY (x.events))),
  made AS (
    INSERT INTO account_notice (id, organization_id, type, body, key_id, end_user, period)
    SELECT 'ntc_' || replace(gen_random_uuid()::text, '-', ''), organization_id, type, body, key_id,
      end_user, period FROM due
    ON CONFLICT DO NOTHING RETURNING id, organization_id, type)
  INSERT INTO webhook (subject_id, organization_id, url, endpoint_id, state, next_attempt_at, overdue_at)
    SELECT m.id || x.suffix, m.organization_id, x.url, x.endpoint_id, 'delivering', clock_timestamp(), clock_timestamp()
    FROM made m JOIN address x ON x.organization_id = m.organization_id AND m.type = ANY (x.events);
END $$;
