-- Admission of requests: one statement looks up the API keys of several requests and counts the
-- requests toward the rate limits. A rate-limit window lasts one minute from its first request.
-- Rejected requests are counted too, but do not extend the window.

-- Admits requests. Request n has the key with the MAC macs[n] and is counted in the rate bucket
-- buckets[n]. Returns an array in the same order. An entry is null if the key is unknown, expired or
-- revoked; otherwise it is the caller, and `hits` counts the requests in the window so far.
CREATE FUNCTION admit_requests(macs bytea[], buckets text[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp();
  answers jsonb;
BEGIN
  WITH request AS (
    SELECT position, mac, bucket, row_number() OVER (PARTITION BY mac, bucket ORDER BY position) AS nth
      FROM unnest(macs, buckets) WITH ORDINALITY AS x(mac, bucket, position)
  ), caller AS MATERIALIZED (
    SELECT a.*, r.bucket, r.requests, m.role, o.status AS organization_status
      FROM (SELECT mac, bucket, count(*)::integer AS requests FROM request GROUP BY 1, 2) AS r
      JOIN api_key a USING (mac)
      JOIN member m ON m.id = a.member_id
      JOIN organization o ON o.id = a.organization_id
      WHERE a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at)
  ), counted AS (
    -- Rows are locked in a fixed order, so that parallel statements cannot deadlock.
    INSERT INTO rate_window AS w (key_id, bucket, started_at, hits)
      SELECT id, bucket, at, requests FROM caller ORDER BY 1, 2
      ON CONFLICT (key_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING key_id, w.bucket, started_at, hits
  ), used AS (
    UPDATE api_key k SET last_used_at = at
      WHERE k.id IN (SELECT id FROM caller
        WHERE last_used_at IS NULL OR last_used_at < at - interval '1 minute')
  )
  SELECT jsonb_agg(CASE WHEN c.id IS NOT NULL THEN jsonb_build_object('keyId', c.id,
      'organizationId', c.organization_id, 'memberId', c.member_id, 'role', c.role,
      'scopes', to_jsonb(c.scopes), 'allowedModels', to_jsonb(c.allowed_models),
      'organizationStatus', c.organization_status, 'hits', w.hits - c.requests + r.nth,
      'resetAtMs', unix_ms(w.started_at) + 60000, 'nowMs', unix_ms(at)) END ORDER BY r.position)
    INTO answers
    FROM request r
    LEFT JOIN caller c USING (mac, bucket)
    LEFT JOIN counted w ON w.key_id = c.id AND w.bucket = c.bucket;
  RETURN answers;
END $$;
