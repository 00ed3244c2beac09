-- Admission of requests: one round trip finds the key and its organization, and counts the request.

-- {mac (hex), bucket, limit, count, spare?, left?} → null for a key that does not admit, else who calls
-- and how often in the last 60 seconds. The window slides: a request counts until it is 60 seconds old, and one that
-- is refused does not count. A limit of up to 120 is counted to the millisecond, exactly; a larger one in steps
-- of half a second, rounded up. `spare` asks for further admissions, to be used within `validMs`: with those that are
-- `left` from before, at most a 64th of what the limit leaves. So a small limit is counted one by one, and
-- a process that stops asking wastes next to nothing.
CREATE FUNCTION admit_request(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  k record; at timestamptz := clock_timestamp(); now_ms bigint; valid_ms bigint; stamp_ms bigint;
  hit_times bigint[]; hit_counts integer[]; counted integer; gone integer := 0; taken integer;
  most integer := (request->>'limit')::integer;
  own integer := (request->>'count')::integer;
  spare integer := coalesce((request->>'spare')::integer, 0);
  step_ms bigint := CASE WHEN (request->>'limit')::integer <= 120 THEN 1 ELSE 500 END;
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
  INSERT INTO rate_window (key_id, bucket, times, counts, hits)
    VALUES (k.id, request->>'bucket', '{}', '{}', 0) ON CONFLICT DO NOTHING;
  SELECT times, counts, hits INTO hit_times, hit_counts, counted FROM rate_window
    WHERE key_id = k.id AND bucket = request->>'bucket' FOR UPDATE;
  -- Whoever waited for the row came after those before it.
  at := clock_timestamp();
  now_ms := floor(extract(epoch FROM at) * 1000);
  valid_ms := least(500, floor(extract(epoch FROM k.expires_at - at) * 1000));
  WHILE hit_times[gone + 1] <= now_ms - 60000 LOOP
    gone := gone + 1;
    counted := counted - hit_counts[gone];
  END LOOP;
  hit_times := hit_times[gone + 1:];
  hit_counts := hit_counts[gone + 1:];
  spare := greatest(0, least(spare, (most - counted - own) / 64
    - coalesce((request->>'left')::integer, 0)));
  taken := CASE WHEN counted + own <= most THEN own ELSE 0 END + spare;
  IF taken > 0 THEN
    -- What is granted in advance counts from when it may last be used.
    stamp_ms := now_ms + CASE WHEN spare > 0 THEN valid_ms ELSE 0 END;
    stamp_ms := greatest((stamp_ms + step_ms - 1) / step_ms * step_ms,
      hit_times[cardinality(hit_times)]);
    IF stamp_ms = hit_times[cardinality(hit_times)] THEN
      hit_counts[cardinality(hit_counts)] := hit_counts[cardinality(hit_counts)] + taken;
    ELSE
      hit_times := hit_times || stamp_ms;
      hit_counts := hit_counts || taken;
    END IF;
  END IF;
  IF taken > 0 OR gone > 0 THEN
    UPDATE rate_window SET times = hit_times, counts = hit_counts, hits = counted + taken
      WHERE key_id = k.id AND bucket = request->>'bucket';
  END IF;
  IF k.last_used_at IS NULL OR k.last_used_at < at - interval '1 minute' THEN
    UPDATE api_key SET last_used_at = at WHERE id = k.id;
  END IF;
  RETURN jsonb_build_object('keyId', k.id, 'organizationId', k.organization_id,
    'memberId', k.member_id, 'role', k.role, 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models), 'organizationStatus', k.organization_status,
    'limited', k.limited, 'hits', counted + own, 'resetAtMs', coalesce(hit_times[1], now_ms) + 60000,
    'nowMs', now_ms, 'spare', spare, 'validMs', valid_ms);
END $$;

-- A batch of admit_request: an answer per request, in the order given.
CREATE FUNCTION admit_requests(requests jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_agg(answer ORDER BY position) FROM (
    SELECT position, admit_request(request) AS answer
      FROM jsonb_array_elements(requests) WITH ORDINALITY AS x(request, position)
      ORDER BY request->>'mac', request->>'bucket', position) AS answered
$$;
