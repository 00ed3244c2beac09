-- Admission of requests with browser tokens, apart from that of API keys (access.sql), which pays nothing for it.

-- Admits `requests` requests with the same browser token, and returns what admit_requests returns. They are counted in
-- windows of their own, so that they use up none of those of API keys: of the end user, of all tokens of the key
-- (as many as the key, if it has a limit of requests), and of all tokens of the organization. The windows
-- are locked in this order, so that parallel statements cannot deadlock.
CREATE FUNCTION admit_token(token_mac bytea, of_bucket text, bucket_default integer, defaults jsonb, requests integer)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp();
  requests_default bigint := defaults->'requests';
  factor bigint := defaults->'organizationFactor';
  passed bigint := requests;
  windows json[] := '{}';
  s record; w rate_window; owner text;
BEGIN
  SELECT 1 AS position, of_bucket AS bucket, a.id AS "keyId", a.user_id AS "userId", o.id AS "organizationId", m.role, t.scopes,
      t.allowed_models AS "allowedModels", json_build_object('tokenId', t.id, 'endUser', t.end_user) AS token,
      o.status AS "organizationStatus", 'tokens/' || o.id || '/' || t.end_user AS "windowOwner",
      'tokens/' || coalesce(h.id, a.id) AS "userWindow", 'tokens/' || o.id AS "organizationWindow",
      rate_limit(of_bucket, bucket_default, requests_default, least(l.own, requests_default)::integer) AS "keyLimit",
      CASE WHEN l.own IS NULL THEN l.shared ELSE rate_limit(of_bucket, bucket_default, requests_default, l.own) END AS "userLimit",
      l.shared AS "organizationLimit"
    INTO s FROM browser_token t
      JOIN api_key a ON a.id = t.key_id
      LEFT JOIN api_key h ON h.id = a.budget_of AND h.rate_limit IS NOT NULL
      JOIN app_user m ON m.id = a.user_id
      JOIN organization o ON o.id = a.organization_id
      CROSS JOIN LATERAL (SELECT coalesce(h.rate_limit, a.rate_limit) AS own,
        rate_limit(of_bucket, factor * bucket_default, factor * requests_default, o.rate_limit) AS shared) AS l
    WHERE t.mac = token_mac AND t.revoked_at IS NULL AND t.expires_at > at
      AND a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at);
  IF NOT FOUND THEN RETURN json_build_object('nowMs', unix_ms(at), 'callers', '[]'::json, 'windows', '[]'::json); END IF;
  FOREACH owner IN ARRAY ARRAY[s."windowOwner", s."userWindow", s."organizationWindow"] LOOP
    INSERT INTO rate_window AS r (owner_id, bucket, started_at, hits) VALUES (owner, of_bucket, at, passed)
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN r.started_at > at - interval '1 minute' THEN r.started_at ELSE at END,
        hits = excluded.hits + CASE WHEN r.started_at > at - interval '1 minute' THEN r.hits ELSE 0 END
      RETURNING * INTO w;
    windows := windows || json_build_object('ownerId', owner, 'bucket', of_bucket, 'hits', w.hits,
      'resetAtMs', unix_ms(w.started_at) + 60000);
    -- The others count what the window of the end user lets pass.
    IF owner = s."windowOwner" THEN passed := least(requests, greatest(0, s."keyLimit" - w.hits + requests)); END IF;
  END LOOP;
  UPDATE api_key SET last_used_at = at
    WHERE id = s."keyId" AND (last_used_at IS NULL OR last_used_at < at - interval '1 minute');
  RETURN json_build_object('nowMs', unix_ms(at), 'callers', json_build_array(row_to_json(s)), 'windows', array_to_json(windows));
END $$;
