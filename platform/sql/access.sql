-- Admission of requests: one round trip finds the key and its organization, and counts the request.

-- {mac (hex), bucket, limit, count, spare?, left?} → null for a key that does not admit, else who calls
-- and how often. `spare` asks for further admissions of this minute, to be used within `validMs`: with
-- those that are `left` from before, at most a 64th of what the limit leaves. So a small limit is
-- counted one by one, and a process that stops asking wastes next to nothing.
CREATE FUNCTION admit_request(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  k record; at timestamptz := clock_timestamp(); counted integer; granted integer;
  minute bigint := floor(extract(epoch FROM at) / 60);
  own integer := (request->>'count')::integer;
  spare integer := coalesce((request->>'spare')::integer, 0);
BEGIN
  SELECT a.id, a.organization_id, a.member_id, a.scopes, a.allowed_models, a.last_used_at,
      a.expires_at, m.role, o.status AS organization_status,
      EXISTS (SELECT FROM api_key holder WHERE holder.id = coalesce(a.budget_of, a.id)
        AND holder.limit_micro IS NOT NULL) AS limited
    INTO k
    FROM api_key a JOIN member m ON m.id = a.member_id JOIN organization o ON o.id = a.organization_id
    WHERE a.mac = decode(request->>'mac', 'hex') AND a.revoked_at IS NULL
      AND (a.expires_at IS NULL OR a.expires_at > at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO rate_window AS w (key_id, bucket, window_start, hits)
    VALUES (k.id, request->>'bucket', minute, own)
    ON CONFLICT (key_id, bucket) DO UPDATE
      SET hits = CASE WHEN w.window_start = minute THEN w.hits + own ELSE own END,
        window_start = minute
    RETURNING hits INTO counted;
  granted := greatest(0, least(spare, ((request->>'limit')::bigint - counted) / 64
    - coalesce((request->>'left')::integer, 0)));
  IF granted > 0 THEN
    UPDATE rate_window SET hits = hits + granted WHERE key_id = k.id AND bucket = request->>'bucket';
  END IF;
  IF k.last_used_at IS NULL OR k.last_used_at < at - interval '1 minute' THEN
    UPDATE api_key SET last_used_at = at WHERE id = k.id;
  END IF;
  RETURN jsonb_build_object('keyId', k.id, 'organizationId', k.organization_id,
    'memberId', k.member_id, 'role', k.role, 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models), 'organizationStatus', k.organization_status,
    'limited', k.limited, 'hits', counted, 'resetAtSeconds', (minute + 1) * 60,
    'nowMs', floor(extract(epoch FROM at) * 1000), 'spare', granted,
    'validMs', least(500, floor(extract(epoch FROM k.expires_at - at) * 1000)));
END $$;

-- A batch of admit_request: an answer per request, in the order given.
CREATE FUNCTION admit_requests(requests jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_agg(answer ORDER BY position) FROM (
    SELECT position, admit_request(request) AS answer
      FROM jsonb_array_elements(requests) WITH ORDINALITY AS x(request, position)
      ORDER BY request->>'mac', request->>'bucket', position) AS answered
$$;
