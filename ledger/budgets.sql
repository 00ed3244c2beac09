-- Budgets of API keys and end users. The account of the organization is locked while a budget is checked and
-- updated, so that parallel requests cannot exceed it. Spending is counted on the UTC day of the
-- reservation, even if the credits are charged or released on a later day.

-- Returns the first day of the limit period that contains `instant`, and the day after its last
-- day. `ends` is null if `per` is `total`.
CREATE FUNCTION budget_period(per text, instant timestamptz, OUT starts date, OUT ends date)
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE per WHEN 'total' THEN '-infinity' ELSE date_trunc(per, instant AT TIME ZONE 'UTC') END::date,
    CASE per WHEN 'total' THEN NULL
      ELSE date_trunc(per, instant AT TIME ZONE 'UTC') + ('1 ' || per)::interval END::date
$$;

-- Returns {limit, per, used, resetsAtMs} of a budget at the time `instant`; null if it has no
-- limit. `unwritten` is the spending of earlier operations in the batch, which is not in the table yet.
CREATE FUNCTION budget_state(budget text, limit_micro bigint, limit_per text, instant timestamptz, unwritten budget_spend[])
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE period record; used bigint;
BEGIN
  IF limit_micro IS NULL THEN RETURN NULL; END IF;
  period := budget_period(limit_per, instant);
  SELECT coalesce(sum(spent), 0) INTO used FROM (
    SELECT * FROM budget_spend UNION ALL SELECT * FROM unnest(unwritten)) AS s
    WHERE budget_id = budget AND day >= period.starts AND (period.ends IS NULL OR day < period.ends);
  RETURN jsonb_build_object('limit', limit_micro, 'per', limit_per, 'used', used,
    'resetsAtMs', unix_ms(period.ends::timestamp AT TIME ZONE 'UTC'));
END $$;

-- Returns the state of the budget of an API key, which the holder of its limits owns.
CREATE FUNCTION key_budget_state(holder api_key, unwritten budget_spend[]) RETURNS jsonb LANGUAGE sql AS $$
  SELECT budget_state(holder.id, holder.limit_micro, holder.limit_per, clock_timestamp(), unwritten) $$;

-- Returns the budget from which an API key spends; null if the budget has no limit.
CREATE FUNCTION key_budget(api_key_id text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT key_budget_state(holder, NULL) FROM api_key k
    JOIN api_key holder ON holder.id = coalesce(k.budget_of, k.id) WHERE k.id = api_key_id
$$;

-- Returns whether an API key has a limit, of its own or shared.
CREATE FUNCTION key_is_limited(api_key_id text) RETURNS boolean LANGUAGE sql AS $$
  SELECT EXISTS (SELECT FROM api_key k JOIN api_key holder ON holder.id = coalesce(k.budget_of, k.id)
    WHERE k.id = api_key_id AND coalesce(holder.limit_micro, holder.rate_limit, holder.jobs_max) IS NOT NULL)
$$;

-- Returns the number of open jobs of an organization, or of one of its budgets: Studio jobs, and chat
-- jobs, whose requests are stored while they are open. `unwritten` are the reservations that earlier
-- operations of a batch made or settled.
CREATE FUNCTION open_jobs(organization text, budget text, unwritten reservation[]) RETURNS bigint
LANGUAGE sql AS $$
  SELECT count(*) FROM (
    SELECT budget_id FROM reservation
      WHERE organization_id = organization AND state = 'reserved' AND kind = 'studio'
        AND id <> ALL (ARRAY(SELECT u.id FROM unnest(unwritten) AS u))
    UNION ALL SELECT x.budget_id FROM chat_job c JOIN reservation x ON x.id = c.id
      WHERE c.organization_id = organization AND c.messages IS NOT NULL AND x.state = 'reserved'
        AND x.id <> ALL (ARRAY(SELECT u.id FROM unnest(unwritten) AS u))
    UNION ALL SELECT budget_id FROM unnest(unwritten)
      WHERE organization_id = organization AND state = 'reserved' AND (kind = 'studio' OR id LIKE 'job\_%')) AS r
  WHERE budget IS NULL OR budget_id = budget
$$;

-- Returns the limit of open jobs that one more job would exceed: {of: key|organization, limit,
-- open}; null if there is none. `unwritten` are as in `open_jobs`.
CREATE FUNCTION reached_jobs_limit(a account, holder api_key, unwritten reservation[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE open bigint;
BEGIN
  IF holder.jobs_max IS NOT NULL THEN
    open := open_jobs(a.organization_id, holder.id, unwritten);
    IF open >= holder.jobs_max THEN
      RETURN jsonb_build_object('of', 'key', 'limit', holder.jobs_max, 'open', open);
    END IF;
  END IF;
  IF a.jobs_max IS NOT NULL THEN
    open := open_jobs(a.organization_id, NULL, unwritten);
    IF open >= a.jobs_max THEN
      RETURN jsonb_build_object('of', 'organization', 'limit', a.jobs_max, 'open', open);
    END IF;
  END IF;
  RETURN NULL;
END $$;

-- Sets limits of an API key and of the keys that share them. The request is {keyId, userId,
-- actingKeyId, limit: {micro, per}, rateLimit, jobsMax}:
--   userId: the user to whom the key must belong; null for operators, who may change the limits
--     of every key.
--   actingKeyId: the API key that authenticates the request; null for operators. A key with a limit
--     may not change limits.
--   limit, rateLimit, jobsMax: the new limits; null removes a limit, and a missing one stays.
CREATE FUNCTION set_key_limits(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE k api_key; acting_key api_key;
BEGIN
  SELECT * INTO k FROM api_key WHERE id = request->>'keyId' AND revoked_at IS NULL
    AND (request->>'userId' IS NULL OR user_id = request->>'userId')
    AND (replaced_by IS NULL OR expires_at > clock_timestamp());
  IF NOT FOUND THEN RETURN '{"verdict": "not_found"}'; END IF;
  PERFORM FROM app_user WHERE id = k.user_id FOR NO KEY UPDATE;
  -- A request without the property `actingKeyId` is rejected; a request from an operator has null.
  IF request->'actingKeyId' IS DISTINCT FROM 'null' THEN
    acting_key := valid_acting_key(request->>'actingKeyId', k.user_id);
    IF acting_key.id IS NULL THEN RETURN '{"verdict": "acting_key_invalid"}'; END IF;
    IF key_is_limited(acting_key.id) THEN RETURN '{"verdict": "acting_key_limited"}'; END IF;
  END IF;
  UPDATE api_key SET
    limit_micro = CASE WHEN request ? 'limit' THEN (request->'limit'->>'micro')::bigint ELSE limit_micro END,
    limit_per = CASE WHEN request ? 'limit' THEN request->'limit'->>'per' ELSE limit_per END,
    rate_limit = CASE WHEN request ? 'rateLimit' THEN (request->>'rateLimit')::integer ELSE rate_limit END,
    jobs_max = CASE WHEN request ? 'jobsMax' THEN (request->>'jobsMax')::integer ELSE jobs_max END
    WHERE id = coalesce(k.budget_of, k.id);
  RETURN jsonb_build_object('verdict', 'set', 'organizationId', k.organization_id,
    'meta', api_key_meta(k));
END $$;
