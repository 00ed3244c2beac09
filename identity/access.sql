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

-- Admits requests: counts[n] requests have the key with the MAC macs[n] and are counted in the rate
-- bucket buckets[n]; a key without a limit of its own may make bucket_defaults[n] requests in the
-- bucket. Release 0.1.0 sends no counts, and each request alone.
-- `defaults` are {requests, userFactor, organizationFactor}: requests of such a key, and how many
-- times as many its user and its organization may make. Keys that share a limit share its window.
-- Returns {callers, windows, nowMs}: the valid keys with their position n, and the windows after all
-- requests. The caller numbers the requests, and Postgres keeps one plan, because a
-- larger statement, planned for each call, takes twice the time.
CREATE FUNCTION admit_requests(macs bytea[], buckets text[], bucket_defaults integer[], defaults jsonb,
  counts integer[] DEFAULT NULL) RETURNS json LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  at timestamptz := clock_timestamp();
  requests_default bigint := defaults->'requests';
  user_factor bigint := defaults->'userFactor';
  organization_factor bigint := defaults->'organizationFactor';
  answer json;
BEGIN
  WITH sent AS MATERIALIZED (
    SELECT r.position, r.bucket, coalesce(r.count, 1) AS requests, coalesce(h.id, a.id) AS "windowOwner", a.id AS "keyId", a.user_id AS "userId",
        a.organization_id AS "organizationId", m.role, a.scopes, a.allowed_models AS "allowedModels",
        o.status AS "organizationStatus", a.last_used_at,
        rate_limit(r.bucket, r.bucket_default, requests_default, coalesce(h.rate_limit, a.rate_limit)) AS "keyLimit",
        user_factor * rate_limit(r.bucket, r.bucket_default, requests_default, largest.requests) AS "userLimit",
        rate_limit(r.bucket, organization_factor * r.bucket_default, organization_factor * requests_default,
          o.rate_limit) AS "organizationLimit"
      FROM unnest(macs, buckets, bucket_defaults, counts)
        WITH ORDINALITY AS r(mac, bucket, bucket_default, count, position)
      JOIN api_key a USING (mac)
      LEFT JOIN api_key h ON h.id = a.budget_of AND h.rate_limit IS NOT NULL
      JOIN app_user m ON m.id = a.user_id
      JOIN organization o ON o.id = a.organization_id
      -- All keys of a user may make as many times more requests as their largest limit allows one.
      CROSS JOIN LATERAL (SELECT greatest(requests_default, max(k.rate_limit))::integer AS requests
        FROM api_key k WHERE k.user_id = a.user_id AND k.rate_limit IS NOT NULL) AS largest
      WHERE a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > at)
  ), by_key AS (
    -- Rows are locked in a fixed order, so that parallel statements cannot deadlock: keys first,
    -- then users and organizations.
    INSERT INTO rate_window AS w (owner_id, bucket, started_at, hits)
      SELECT "windowOwner", bucket, at, sum(requests) FROM sent GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING owner_id, w.bucket, started_at, hits
  ), admitted AS (
    SELECT s."userId", s."organizationId", s.bucket,
        least(sum(s.requests), greatest(0, s."keyLimit" - k.hits + sum(s.requests))) AS requests
      FROM sent s JOIN by_key k ON k.owner_id = s."windowOwner" AND k.bucket = s.bucket
      GROUP BY s."userId", s."organizationId", s.bucket, s."keyLimit", k.owner_id, k.hits
  ), by_group AS (
    INSERT INTO rate_window AS w (owner_id, bucket, started_at, hits)
      SELECT g.owner_id, a.bucket, at, sum(a.requests) FROM admitted a
        CROSS JOIN LATERAL (VALUES (a."userId"), (a."organizationId")) AS g(owner_id)
        GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (owner_id, bucket) DO UPDATE SET
        started_at = CASE WHEN w.started_at > at - interval '1 minute' THEN w.started_at ELSE at END,
        hits = excluded.hits
          + CASE WHEN w.started_at > at - interval '1 minute' THEN w.hits ELSE 0 END
      RETURNING owner_id, w.bucket, started_at, hits
  ), used AS (
    UPDATE api_key k SET last_used_at = at
      WHERE k.id IN (SELECT "keyId" FROM sent
        WHERE last_used_at IS NULL OR last_used_at < at - interval '1 minute')
  )
  SELECT json_build_object('nowMs', unix_ms(at),
      'callers', coalesce((SELECT json_agg(s) FROM sent s), '[]'),
      'windows', coalesce((SELECT json_agg(json_build_object('ownerId', w.owner_id, 'bucket', w.bucket, 'hits', w.hits,
        'resetAtMs', unix_ms(w.started_at) + 60000)) FROM (TABLE by_key UNION ALL TABLE by_group) AS w), '[]'))
    INTO answer;
  RETURN answer;
END $$;
