-- Budgets of API keys. The organization's account is locked while a budget is checked and updated,
-- so that parallel requests cannot exceed it. Spending is counted on the UTC day of the
-- reservation, even if the charge or release follows on a later day.

-- Returns the period of a limit that contains the time `at`. `ends` is null if `per` is `total`.
CREATE FUNCTION budget_period(per text, at timestamptz, OUT starts date, OUT ends date)
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE per WHEN 'total' THEN '-infinity' ELSE date_trunc(per, at AT TIME ZONE 'UTC') END::date,
    CASE per WHEN 'total' THEN NULL
      ELSE date_trunc(per, at AT TIME ZONE 'UTC') + ('1 ' || per)::interval END::date
$$;

-- Returns {limit, per, used, resetsAtMs} of an API key's budget, or null if it has no limit.
-- `moved` is spending in this batch that has not been written yet.
CREATE FUNCTION budget_state(holder api_key, at timestamptz, moved budget_spend[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE period record; used bigint;
BEGIN
  IF holder.limit_micro IS NULL THEN RETURN NULL; END IF;
  period := budget_period(holder.limit_per, at);
  SELECT coalesce(sum(spent), 0) INTO used FROM (
    SELECT * FROM budget_spend UNION ALL SELECT * FROM unnest(moved)) AS s
    WHERE budget_id = holder.id AND day >= period.starts AND (period.ends IS NULL OR day < period.ends);
  RETURN jsonb_build_object('limit', holder.limit_micro, 'per', holder.limit_per, 'used', used,
    'resetsAtMs', unix_ms(period.ends::timestamp AT TIME ZONE 'UTC'));
END $$;

-- Returns the budget that an API key spends from, or null if it has no limit.
CREATE FUNCTION key_budget(of_key text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT budget_state(holder, clock_timestamp(), NULL) FROM api_key k
    JOIN api_key holder ON holder.id = coalesce(k.budget_of, k.id) WHERE k.id = of_key
$$;

-- Sets the limit of the budget that an API key spends from.
-- request: {keyId, memberId, actingKeyId, limit: {micro, per}}
--   memberId: null for operators, who may change the limit of every key
--   actingKeyId: the API key that authenticates the request; null for operators. If this key has a
--     limit, it may not change limits
--   limit: null removes the limit
CREATE FUNCTION set_key_limit(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE k api_key; acting_key api_key;
BEGIN
  SELECT * INTO k FROM api_key WHERE id = request->>'keyId' AND revoked_at IS NULL
    AND (request->>'memberId' IS NULL OR member_id = request->>'memberId')
    AND (replaced_by IS NULL OR expires_at > clock_timestamp());
  IF NOT FOUND THEN RETURN '{"verdict": "not_found"}'; END IF;
  PERFORM FROM member WHERE id = k.member_id FOR NO KEY UPDATE;
  -- A request without `actingKeyId` is rejected; operators send null.
  IF request->'actingKeyId' IS DISTINCT FROM 'null' THEN
    acting_key := valid_acting_key(request->>'actingKeyId', k.member_id);
    IF acting_key.id IS NULL THEN RETURN '{"verdict": "acting_key_invalid"}'; END IF;
    IF key_budget(acting_key.id) IS NOT NULL THEN
      RETURN '{"verdict": "exceeds_acting_key", "field": "limit"}';
    END IF;
  END IF;
  UPDATE api_key SET limit_micro = (request->'limit'->>'micro')::bigint,
    limit_per = request->'limit'->>'per' WHERE id = coalesce(k.budget_of, k.id);
  RETURN jsonb_build_object('verdict', 'set', 'organizationId', k.organization_id,
    'meta', api_key_meta(k));
END $$;
