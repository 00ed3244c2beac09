-- Admission of requests: one statement looks up the API keys of several requests and counts the
-- requests toward the rate limits of the key, its user and its organization. A window lasts one
-- minute from its first request. Rejected requests are counted by the key too, but do not extend its
-- window; users and organizations count only what the limit of a key lets pass, so that a key beyond
-- its limit does not use up the requests of the others.

-- Returns a limit of requests per minute. `own` is the limit of requests that was set for a key or an
-- organization; null if none was set. `bucket_default` and `requests_default` are the limits without
-- it. If the limit of requests is raised, those of reads are raised in proportion.
CREATE FUNCTION rate_limit(bucket text, bucket_default bigint, requests_default bigint, own integer)
RETURNS bigint LANGUAGE sql IMMUTABLE RETURN CASE WHEN own IS NULL THEN bucket_default
  WHEN bucket = 'requests' THEN own
  ELSE greatest(bucket_default, bucket_default * own / requests_default) END;

-- Admits requests. Request n has the key with the MAC macs[n] and is counted in the rate bucket
-- buckets[n]; a key without a limit of its own may make bucket_defaults[n] requests in the bucket.
-- `defaults` are {requests, userFactor, organizationFactor}: requests of such a key, and how many
-- times as many its user and its organization may make. Keys that share a limit share its window.
-- Returns an array in the same order. An entry is null if the key is unknown, expired or revoked;
-- otherwise it is the caller with its windows: `hits` is the number of the request in the window.
CREATE FUNCTION admit_requests(macs bytea[], buckets text[], bucket_defaults integer[], defaults jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp();
  requests_default bigint := defaults->'requests';
  user_factor bigint := defaults->'userFactor';
  organization_factor bigint := defaults->'organizationFactor';
  answers jsonb;
BEGIN
  WITH request AS (
    SELECT position, mac, bucket, bucket_default
      FROM unnest(macs, buckets, bucket_defaults) WITH ORDINALITY AS x(mac, bucket, bucket_default, position)
  ), caller AS MATERIALIZED (
    SELECT a.*, r.bucket, coalesce(h.id, a.id) AS window_owner, m.role, o.status AS organization_status,
        rate_limit(r.bucket, r.bucket_default, requests_default, coalesce(h.rate_limit, a.rate_limit)) AS key_limit,
        -- All keys of a user may make as many times more requests as their largest limit allows one.
        user_factor * rate_limit(r.bucket, r.bucket_default, requests_default, greatest(requests_default,
          (SELECT max(k.rate_limit) FROM api_key k WHERE k.user_id = m.id AND k.rate_limit IS NOT NULL))::integer)
          AS user_limit,
        rate_limit(r.bucket, organization_factor * r.bucket_default, organization_factor * requests_default,
          o.rate_limit) AS organization_limit
      FROM (SELECT DISTINCT mac, bucket, bucket_default FROM request) AS r
      JOIN api_key a USING (mac)
      LEFT JOIN api_key h ON h.id = a.budget_of AND h.rate_limit IS NOT NULL
      JOIN app_user m ON m.id = a.user_id
      JOIN organization o ON o.id = a.organization_id
      WHERE a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at)
  ), sent AS MATERIALIZED (
    SELECT r.position, c.*, row_number() OVER (PARTITION BY c.window_owner, c.bucket ORDER BY r.position) AS nth,
        count(*) OVER (PARTITION BY c.window_owner, c.bucket) AS requests
      FROM request r JOIN caller c USING (mac, bucket)
  ), by_key AS (
    -- Rows are locked in a fixed order, so that parallel statements cannot deadlock: keys first,
    -- then users and organizations.
    INSERT INTO rate_window AS w (owner_id, bucket, started_at, hits)
      SELECT window_owner, bucket, at, count(*)::integer FROM sent GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING owner_id, w.bucket, started_at, hits
  ), admitted AS MATERIALIZED (
    SELECT s.*, k.started_at AS key_started_at, k.hits - s.requests + s.nth AS key_hits,
        (k.hits - s.requests + s.nth <= s.key_limit)::integer AS passes
      FROM sent s JOIN by_key k ON k.owner_id = s.window_owner AND k.bucket = s.bucket
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
        'key', jsonb_build_object('hits', c.key_hits, 'limit', c.key_limit, 'resetAtMs', unix_ms(c.key_started_at) + 60000),
        'user', jsonb_build_object('hits', c.user_hits, 'limit', c.user_limit, 'resetAtMs', unix_ms(c.user_started_at) + 60000),
        'organization', jsonb_build_object('hits', c.organization_hits, 'limit', c.organization_limit,
          'resetAtMs', unix_ms(c.organization_started_at) + 60000))) END ORDER BY r.position)
    INTO answers
    FROM request r LEFT JOIN counted c USING (position);
  RETURN answers;
END $$;
