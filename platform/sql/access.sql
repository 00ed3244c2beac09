-- Admission of requests: one round trip finds keys and their organizations, and counts the requests.

-- The window of a key slides: a request counts until it is 60 seconds old, and one that is refused does not count.
-- A limit of up to 120 is counted to the millisecond, a larger one in steps of half a second, rounded up.

-- So many requests of one key in one bucket, all of this moment. Null for a key that does not admit, else who calls, with
-- `hits`: how many requests before these are in the last 60 seconds.
CREATE FUNCTION admit_key(key_mac bytea, of_bucket text, most integer, asked integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  k record; at timestamptz := clock_timestamp(); now_ms bigint; stamp_ms bigint;
  hit_times bigint[]; hit_counts integer[]; counted integer; gone integer := 0; taken integer; last integer;
  step_ms bigint := CASE WHEN most <= 120 THEN 1 ELSE 500 END;
BEGIN
  SELECT a.id, a.organization_id, a.member_id, a.scopes, a.allowed_models, a.last_used_at, m.role,
      o.status AS organization_status
    INTO k
    FROM api_key a JOIN member m ON m.id = a.member_id JOIN organization o ON o.id = a.organization_id
    WHERE a.mac = key_mac AND a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  LOOP
    SELECT times, counts, hits INTO hit_times, hit_counts, counted FROM rate_window
      WHERE key_id = k.id AND bucket = of_bucket FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO rate_window (key_id, bucket, times, counts, hits)
      VALUES (k.id, of_bucket, '{}', '{}', 0) ON CONFLICT DO NOTHING;
  END LOOP;
  -- Whoever waited for the row came after those before it.
  at := clock_timestamp();
  now_ms := floor(extract(epoch FROM at) * 1000);
  WHILE hit_times[gone + 1] <= now_ms - 60000 LOOP
    gone := gone + 1;
    counted := counted - hit_counts[gone];
  END LOOP;
  hit_times := hit_times[gone + 1:];
  hit_counts := hit_counts[gone + 1:];
  taken := greatest(0, least(asked, most - counted));
  IF taken > 0 THEN
    last := cardinality(hit_times);
    stamp_ms := greatest((now_ms + step_ms - 1) / step_ms * step_ms, hit_times[last]);
    IF stamp_ms = hit_times[last] THEN
      hit_counts[last] := hit_counts[last] + taken;
    ELSE
      hit_times := hit_times || stamp_ms;
      hit_counts := hit_counts || taken;
    END IF;
  END IF;
  IF taken > 0 OR gone > 0 THEN
    UPDATE rate_window SET times = hit_times, counts = hit_counts, hits = counted + taken
      WHERE key_id = k.id AND bucket = of_bucket;
  END IF;
  IF k.last_used_at IS NULL OR k.last_used_at < at - interval '1 minute' THEN
    UPDATE api_key SET last_used_at = at WHERE id = k.id;
  END IF;
  RETURN jsonb_build_object('keyId', k.id, 'organizationId', k.organization_id,
    'memberId', k.member_id, 'role', k.role, 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models), 'organizationStatus', k.organization_status,
    'hits', counted, 'resetAtMs', coalesce(hit_times[1], now_ms) + 60000, 'nowMs', now_ms);
END $$;

-- [{mac (hex), bucket, limit}]: an answer for each request, in the order given: that of its key, with `hits` for
-- how many there were of it until this one. Those of one key are counted together; keys are locked in one order.
CREATE FUNCTION admit_requests(requests jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(requests)]); asked record; caller jsonb;
BEGIN
  FOR asked IN
    SELECT request->>'mac' AS mac, request->>'bucket' AS bucket, (request->>'limit')::integer AS most,
        array_agg(position ORDER BY position) AS positions
      FROM jsonb_array_elements(requests) WITH ORDINALITY AS x(request, position)
      GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  LOOP
    caller := admit_key(decode(asked.mac, 'hex'), asked.bucket, asked.most, cardinality(asked.positions));
    FOR place IN 1..cardinality(asked.positions) LOOP
      -- Those that are refused do not count: each is the first one too many.
      answers[asked.positions[place]] := caller || jsonb_build_object('hits',
        least((caller->>'hits')::integer + place, greatest((caller->>'hits')::integer, asked.most) + 1));
    END LOOP;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;
