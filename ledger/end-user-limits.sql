-- Limits of end users: credits in a period, requests per minute, and suspension. They are decided in the
-- statement that reserves, while the account is locked, as the budgets of API keys are (budgets.sql).

-- Returns the id of the budget that counts what is spent for an end user.
CREATE FUNCTION end_user_budget(organization text, end_user text) RETURNS text LANGUAGE sql IMMUTABLE RETURN
  organization || '/' || end_user;

-- Returns the budgets that count a reservation for an end user beside the budget of its key; null if there
-- are none.
CREATE FUNCTION further_budgets(organization text, end_user text) RETURNS text[] LANGUAGE sql IMMUTABLE RETURN
  CASE WHEN end_user IS NOT NULL THEN ARRAY[end_user_budget(organization, end_user)] END;

-- Returns the end user of a ledger operation that reserves; null if it has none. The path is read
-- without a copy of the job.
CREATE FUNCTION end_user_of(operation jsonb) RETURNS text LANGUAGE sql IMMUTABLE RETURN
  coalesce(operation #>> '{job,metadata,$endUser}', operation #>> '{chat,metadata,$endUser}');

-- Returns the browser token of a ledger operation that reserves; null if its request had an API key.
CREATE FUNCTION token_of(operation jsonb) RETURNS text LANGUAGE sql IMMUTABLE RETURN
  coalesce(operation #>> '{job,plan,tokenId}', operation #>> '{chat,tokenId}');

-- Returns the budget of a browser token as a list; null if it has none. It is read for each operation, because
-- earlier ones of the batch have changed it. A token whose row was deleted may spend nothing.
CREATE FUNCTION token_budget(token text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT CASE WHEN t.id IS NULL OR t.max_micro IS NOT NULL THEN jsonb_build_array(jsonb_build_object(
      'limit', coalesce(t.max_micro, 0), 'per', 'total', 'used', coalesce(t.spent_micro, 0), 'resetsAtMs', NULL, 'verdict', 'token_limit_exceeded')) END
    FROM (SELECT) AS one LEFT JOIN browser_token t ON t.id = token $$;

-- Returns the limits of an end user; null if it is null. Each field without a value of the end user's own has
-- the value of `*`.
CREATE FUNCTION limits_of_end_user(organization text, end_user text) RETURNS end_user LANGUAGE sql STABLE STRICT AS $$
  SELECT (organization, end_user,
      CASE WHEN 'suspended' = ANY (i.fields) THEN d.suspended ELSE u.suspended END,
      CASE WHEN 'limit' = ANY (i.fields) THEN d.limit_micro ELSE u.limit_micro END,
      CASE WHEN 'limit' = ANY (i.fields) THEN d.limit_per ELSE u.limit_per END,
      CASE WHEN 'rateLimit' = ANY (i.fields) THEN d.rate_limit ELSE u.rate_limit END,
      u.updated_at, i.fields)::end_user
    FROM (SELECT) AS one
      LEFT JOIN end_user u ON u.organization_id = organization AND u.id = end_user
      LEFT JOIN end_user d ON d.organization_id = organization AND d.id = '*'
      CROSS JOIN LATERAL (SELECT coalesce(u.inherited, '{suspended,limit,rateLimit}') AS fields) AS i $$;

-- Returns the budget of an end user with these limits, as `budget_state` does for a key.
CREATE FUNCTION end_user_budget_state(limits end_user, budget text, unwritten budget_spend[]) RETURNS jsonb
LANGUAGE sql AS $$
  SELECT budget_state(budget, limits.limit_micro, limits.limit_per, clock_timestamp(), unwritten)
    || '{"verdict": "end_user_limit_exceeded"}' $$;

-- Returns the budgets with a limit from which a request of an API key for an end user spends; null if
-- there are none.
CREATE FUNCTION limited_budgets(organization text, api_key_id text, end_user text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT nullif(jsonb_path_query_array(jsonb_build_array(key_budget(api_key_id),
      end_user_budget_state(limits_of_end_user(organization, end_user), end_user_budget(organization, end_user), NULL)),
    '$[*] ? (@ != null)'), '[]') $$;

-- Returns the rejection of a reservation for an end user that is suspended or makes too many requests;
-- null if the reservation may go on. Counts the request. A repeated reservation is not counted, and
-- nor is an item of a bulk job, which is a part of one request.
CREATE FUNCTION refuse_end_user(limits end_user, budget text, operation jsonb, is_repeated boolean) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE at timestamptz := clock_timestamp(); w rate_window;
BEGIN
  IF is_repeated THEN RETURN NULL; END IF;
  IF limits.suspended THEN RETURN '{"verdict": "end_user_suspended"}'; END IF;
  IF limits.rate_limit IS NULL OR operation #>> '{job,plan,inBulk}' IS NOT NULL OR operation ? 'item' THEN RETURN NULL; END IF;
  INSERT INTO rate_window AS r (owner_id, bucket, started_at, hits) VALUES (budget, 'requests', at, 1)
    ON CONFLICT (owner_id, bucket) DO UPDATE SET
      started_at = CASE WHEN r.started_at > at - interval '1 minute' THEN r.started_at ELSE at END,
      hits = 1 + CASE WHEN r.started_at > at - interval '1 minute' THEN r.hits ELSE 0 END
    RETURNING * INTO w;
  IF w.hits <= limits.rate_limit THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('verdict', 'end_user_rate_limited', 'limit', limits.rate_limit,
    'waitMs', greatest(0, unix_ms(w.started_at) + 60000 - unix_ms(at)));
END $$;

-- Records that a reservation used 80 % of the limit of an end user, or was rejected because of it. `state`
-- is the budget before the reservation.
CREATE FUNCTION mark_end_user(organization text, end_user text, state jsonb, answer json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  is_rejected boolean := answer->>'verdict' = 'end_user_limit_exceeded';
  is_near boolean := answer->>'verdict' = 'reserved' AND answer->>'repeated' = 'false'
    AND ((state->>'used')::bigint + (answer->>'amount')::bigint) >= 0.8 * (state->>'limit')::bigint;
BEGIN
  IF is_rejected OR is_near THEN
    INSERT INTO end_user_mark SELECT organization, end_user, (state->>'limit')::bigint, state->>'per', p.starts, is_rejected
      FROM budget_period(state->>'per', clock_timestamp()) AS p WHERE state->>'limit' <> '0' ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- Changes the limits of an end user: {organizationId, id, actingKeyId, limit?: {micro, per}|null, rateLimit?: number|null,
-- suspended?}. A missing field stays, or is inherited by a new row. An API key that has limits may not change those of others.
CREATE FUNCTION set_end_user(request jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF key_is_limited(request->>'actingKeyId') THEN RETURN 'acting_key_limited'; END IF;
  -- The lock orders the change before or after each reservation.
  PERFORM FROM account WHERE organization_id = request->>'organizationId' FOR NO KEY UPDATE;
  INSERT INTO end_user AS u (organization_id, id, suspended, limit_micro, limit_per, rate_limit, inherited)
    VALUES (request->>'organizationId', request->>'id', coalesce((request->>'suspended')::boolean, false),
      (request->'limit'->>'micro')::bigint, request->'limit'->>'per', (request->>'rateLimit')::integer,
      ARRAY(SELECT f FROM unnest('{suspended,limit,rateLimit}'::text[]) AS f WHERE request->>'id' <> '*' AND NOT request ? f))
    ON CONFLICT (organization_id, id) DO UPDATE SET
      suspended = CASE WHEN request ? 'suspended' THEN excluded.suspended ELSE u.suspended END,
      limit_micro = CASE WHEN request ? 'limit' THEN excluded.limit_micro ELSE u.limit_micro END,
      limit_per = CASE WHEN request ? 'limit' THEN excluded.limit_per ELSE u.limit_per END,
      rate_limit = CASE WHEN request ? 'rateLimit' THEN excluded.rate_limit ELSE u.rate_limit END,
      inherited = ARRAY(SELECT f FROM unnest(u.inherited) AS f WHERE NOT request ? f),
      updated_at = clock_timestamp();
  RETURN 'set';
END $$;

-- Removes the limits of an end user, so that those of `*` apply. An API key that has limits may not.
CREATE FUNCTION remove_end_user(organization text, end_user_id text, acting_key text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF key_is_limited(acting_key) THEN RETURN 'acting_key_limited'; END IF;
  PERFORM FROM account WHERE organization_id = organization FOR NO KEY UPDATE;
  DELETE FROM end_user WHERE organization_id = organization AND id = end_user_id;
  RETURN CASE WHEN FOUND THEN 'removed' ELSE 'absent' END;
END $$;

-- Lists the end users that have their own limits or have spent credits, after the id `after`, sorted by id in
-- the locale C.
CREATE FUNCTION list_end_users(organization text, after text, rows_max integer) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT id FROM (
    (SELECT u.id FROM end_user u WHERE u.organization_id = organization AND u.id <> '*' AND u.id COLLATE "C" > after
      ORDER BY u.id COLLATE "C" LIMIT rows_max)
    UNION (SELECT substr(b.budget_id, length(organization) + 2) FROM budget_spend b WHERE b.budget_id LIKE 'org\_%'
        AND b.budget_id COLLATE "C" > organization || '/' || after AND b.budget_id COLLATE "C" < organization || '0'
      GROUP BY b.budget_id COLLATE "C", b.budget_id ORDER BY b.budget_id COLLATE "C" LIMIT rows_max)) AS found
  ORDER BY id COLLATE "C" LIMIT rows_max $$;
