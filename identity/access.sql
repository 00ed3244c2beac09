-- Admission of requests: one statement looks up the API keys of several requests and counts the
-- requests toward the rate limits of the key, its user and its organization. A window lasts one
-- minute from its first request. Rejected requests are counted by the key too, but do not extend its
-- window; users and organizations count only what the limit of a key lets pass, so that a key beyond
-- its limit does not use up the requests of the others.

-- Admits requests. Request n has the key with the MAC macs[n] and is counted in the rate bucket
-- buckets[n]; a key may make key_limits[n] requests in the bucket. Returns an array in the same
-- order. An entry is null if the key is unknown, expired or revoked; otherwise it is the caller with
-- its windows: `hits` is the number of the request in the window.
CREATE FUNCTION admit_requests(macs bytea[], buckets text[], key_limits integer[])
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp();
  answers jsonb;
BEGIN
  WITH request AS (
    SELECT position, mac, bucket, key_limit,
        row_number() OVER (PARTITION BY mac, bucket ORDER BY position) AS nth
      FROM unnest(macs, buckets, key_limits) WITH ORDINALITY AS x(mac, bucket, key_limit, position)
  ), caller AS MATERIALIZED (
    SELECT a.*, r.bucket, r.requests, r.key_limit, m.role, o.status AS organization_status
      FROM (SELECT mac, bucket, key_limit, count(*)::integer AS requests FROM request GROUP BY 1, 2, 3) AS r
      JOIN api_key a USING (mac)
      JOIN app_user m ON m.id = a.user_id
      JOIN organization o ON o.id = a.organization_id
      WHERE a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at)
  ), by_key AS (
    -- Rows are locked in a fixed order, so that parallel statements cannot deadlock: keys first,
    -- then users and organizations.
    INSERT INTO rate_window AS w (owner_id, bucket, started_at, hits)
      SELECT id, bucket, at, requests FROM caller ORDER BY 1, 2
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING owner_id, w.bucket, started_at, hits
  ), admitted AS MATERIALIZED (
    SELECT r.position, c.*, k.started_at AS key_started_at, k.hits - c.requests + r.nth AS key_hits,
        (k.hits - c.requests + r.nth <= r.key_limit)::integer AS passes
      FROM request r JOIN caller c USING (mac, bucket) JOIN by_key k ON k.owner_id = c.id AND k.bucket = c.bucket
  ), by_group AS (
    INSERT INTO rate_window AS w (owner_id, bucket, started_at, hits)
      SELECT user_id, bucket, at, sum(passes)::integer FROM admitted GROUP BY 1, 2
      UNION ALL SELECT organization_id, bucket, at, sum(passes)::integer FROM admitted GROUP BY 1, 2
      ORDER BY 1, 2
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING owner_id, w.bucket, started_at, hits
  ), used AS (
    UPDATE api_key k SET last_used_at = at
      WHERE k.id IN (SELECT id FROM caller
        WHERE last_used_at IS NULL OR last_used_at < at - interval '1 minute')
  ), counted AS (
    -- Later requests of this statement are not yet in the window of an earlier one.
    SELECT a.*,
        u.started_at AS user_started_at, u.hits - coalesce(sum(a.passes) OVER
          (PARTITION BY a.user_id, a.bucket ORDER BY a.position
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) AS user_hits,
        o.started_at AS organization_started_at, o.hits - coalesce(sum(a.passes) OVER
          (PARTITION BY a.organization_id, a.bucket ORDER BY a.position
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) AS organization_hits
      FROM admitted a
      JOIN by_group u ON u.owner_id = a.user_id AND u.bucket = a.bucket
      JOIN by_group o ON o.owner_id = a.organization_id AND o.bucket = a.bucket
  )
  SELECT jsonb_agg(CASE WHEN c.id IS NOT NULL THEN jsonb_build_object('keyId', c.id,
      'organizationId', c.organization_id, 'userId', c.user_id, 'role', c.role,
      'scopes', to_jsonb(c.scopes), 'allowedModels', to_jsonb(c.allowed_models),
      'organizationStatus', c.organization_status, 'nowMs', unix_ms(at), 'windows', jsonb_build_object(
        'key', jsonb_build_object('hits', c.key_hits, 'resetAtMs', unix_ms(c.key_started_at) + 60000),
        'user', jsonb_build_object('hits', c.user_hits, 'resetAtMs', unix_ms(c.user_started_at) + 60000),
        'organization', jsonb_build_object('hits', c.organization_hits,
          'resetAtMs', unix_ms(c.organization_started_at) + 60000))) END ORDER BY r.position)
    INTO answers
    FROM request r LEFT JOIN counted c USING (position);
  RETURN answers;
END $$;
