-- Creation, rotation and revocation of API keys by their users. These functions lock the user's row,
-- so that parallel requests cannot exceed the user's quota of keys. The "acting key" is the API key
-- that authenticates the request.

CREATE FUNCTION api_key_meta(k api_key) RETURNS jsonb LANGUAGE sql STABLE RETURN
  jsonb_build_object('keyId', k.id, 'keyPrefix', k.prefix, 'name', k.name,
    'createdAt', unix_ms(k.created_at), 'expiresAt', unix_ms(k.expires_at),
    'lastUsedAt', unix_ms(k.last_used_at), 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models))
  || (SELECT jsonb_build_object('rateLimit', holder.rate_limit, 'jobsMax', holder.jobs_max, 'limit',
      CASE WHEN holder.limit_micro IS NOT NULL THEN jsonb_build_object(
        'credits', trim_scale(holder.limit_micro / 1000000.0), 'per', holder.limit_per) END)
    FROM api_key holder WHERE holder.id = coalesce(k.budget_of, k.id));

-- Returns the first field in which a new key exceeds the permissions of the acting key, or null.
CREATE FUNCTION api_key_excess(acting_key api_key, requested api_key) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
  WHEN NOT requested.scopes <@ acting_key.scopes THEN 'scopes'
  WHEN acting_key.allowed_models IS NOT NULL
    AND (requested.allowed_models IS NULL OR NOT requested.allowed_models <@ acting_key.allowed_models)
    THEN 'allowedModels'
  WHEN acting_key.expires_at IS NOT NULL
    AND (requested.expires_at IS NULL OR requested.expires_at > acting_key.expires_at) THEN 'expiresAt'
END;

-- Returns the acting key. Null if it was revoked or expired while the request was running.
CREATE FUNCTION valid_acting_key(key_id text, of_user text) RETURNS api_key LANGUAGE sql AS $$
  SELECT k FROM api_key k WHERE id = key_id AND user_id = of_user AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp())
$$;

-- Creates a key with at most the permissions of the acting key. Fields that are null are copied from
-- the acting key. If the acting key has a limit, the new key shares its budget and its limits, and
-- cannot have its own.
-- request: {userId, actingKeyId (null for operators), id, name, prefix, mac (hex), scopes|null,
--   allowedModels|null, expiresAtMs|null, limit: {micro, per}|null, rateLimit|null, jobsMax|null, quota}
CREATE FUNCTION create_api_key(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE owner app_user; acting_key api_key; k api_key; field text;
BEGIN
  SELECT * INTO owner FROM app_user WHERE id = request->>'userId' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN '{"verdict": "no_user"}'; END IF;
  -- A request without `actingKeyId` is rejected; operators send null.
  IF request->'actingKeyId' IS DISTINCT FROM 'null' THEN
    acting_key := valid_acting_key(request->>'actingKeyId', owner.id);
    IF acting_key.id IS NULL THEN RETURN '{"verdict": "acting_key_invalid"}'; END IF;
  END IF;
  k.id := request->>'id'; k.name := request->>'name';
  k.organization_id := owner.organization_id; k.user_id := owner.id;
  k.scopes := coalesce(text_array(request->'scopes'), acting_key.scopes);
  k.allowed_models := coalesce(text_array(request->'allowedModels'), acting_key.allowed_models);
  k.expires_at := coalesce(timestamp_of_ms((request->>'expiresAtMs')::bigint), acting_key.expires_at);
  k.limit_micro := request->'limit'->>'micro'; k.limit_per := request->'limit'->>'per';
  k.rate_limit := request->>'rateLimit'; k.jobs_max := request->>'jobsMax';
  IF key_is_limited(acting_key.id) THEN
    field := CASE WHEN k.limit_micro IS NOT NULL THEN 'limit' WHEN k.rate_limit IS NOT NULL THEN 'rateLimit'
      WHEN k.jobs_max IS NOT NULL THEN 'jobsMax' END;
    IF field IS NOT NULL THEN RETURN jsonb_build_object('verdict', 'exceeds_acting_key', 'field', field); END IF;
    k.budget_of := coalesce(acting_key.budget_of, acting_key.id);
  END IF;
  RETURN insert_api_key(acting_key, k, request, (SELECT count(*) FROM api_key
    WHERE user_id = owner.id AND revoked_at IS NULL AND replaced_by IS NULL));
END $$;

-- Replaces a key by a new one. The old key stays valid for `overlapMs` milliseconds. At most `quota`
-- replaced keys of a user can be valid at the same time.
-- request: {userId, actingKeyId, keyId, id, prefix, mac (hex), expiresAtMs|null, overlapMs, quota}
CREATE FUNCTION rotate_api_key(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE acting_key api_key; old api_key; k api_key; at timestamptz; answer jsonb;
BEGIN
  PERFORM FROM app_user WHERE id = request->>'userId' FOR NO KEY UPDATE;
  at := clock_timestamp();
  acting_key := valid_acting_key(request->>'actingKeyId', request->>'userId');
  IF acting_key.id IS NULL THEN RETURN '{"verdict": "acting_key_invalid"}'; END IF;
  SELECT * INTO old FROM api_key WHERE id = request->>'keyId' AND user_id = acting_key.user_id
    AND revoked_at IS NULL AND (replaced_by IS NULL OR expires_at > at);
  IF NOT FOUND THEN RETURN '{"verdict": "not_found"}'; END IF;
  IF old.replaced_by IS NOT NULL THEN RETURN '{"verdict": "already_replaced"}'; END IF;
  k := old;
  k.id := request->>'id'; k.last_used_at := NULL;
  k.budget_of := coalesce(old.budget_of, old.id); k.limit_micro := NULL; k.limit_per := NULL;
  k.rate_limit := NULL; k.jobs_max := NULL;
  k.expires_at := coalesce(timestamp_of_ms((request->>'expiresAtMs')::bigint), old.expires_at);
  answer := insert_api_key(acting_key, k, request, (SELECT count(*) FROM api_key
    WHERE user_id = acting_key.user_id AND revoked_at IS NULL AND replaced_by IS NOT NULL AND expires_at > at));
  IF answer->>'verdict' = 'created' THEN
    UPDATE api_key SET replaced_by = k.id, expires_at = least(expires_at,
        at + (request->>'overlapMs')::bigint * interval '1 millisecond')
      WHERE id = old.id RETURNING * INTO old;
    answer := answer || jsonb_build_object('oldExpiresAt', unix_ms(old.expires_at));
  END IF;
  RETURN answer;
END $$;

-- Inserts the key `k`, unless it exceeds the permissions of the acting key, or `counted`, the
-- number of existing keys that count toward the quota, has reached the quota.
CREATE FUNCTION insert_api_key(acting_key api_key, k api_key, request jsonb, counted bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE excess text;
BEGIN
  k.created_at := date_trunc('milliseconds', clock_timestamp());
  k.prefix := request->>'prefix'; k.mac := decode(request->>'mac', 'hex');
  IF k.expires_at <= clock_timestamp() THEN RETURN '{"verdict": "expiry_past"}'; END IF;
  IF acting_key.id IS NOT NULL THEN excess := api_key_excess(acting_key, k); END IF;
  IF excess IS NULL AND key_is_limited(acting_key.id)
    AND k.budget_of IS DISTINCT FROM coalesce(acting_key.budget_of, acting_key.id) THEN excess := 'limit';
  END IF;
  IF excess IS NOT NULL THEN
    RETURN jsonb_build_object('verdict', 'exceeds_acting_key', 'field', excess);
  ELSIF counted >= (request->>'quota')::integer THEN
    RETURN '{"verdict": "quota_reached"}';
  END IF;
  INSERT INTO api_key SELECT k.*;
  -- A key adds no requests to the current minute: it begins in the windows of the acting key, or of
  -- the key that it replaces if that has made more requests.
  INSERT INTO rate_window (owner_id, bucket, started_at, hits)
    SELECT DISTINCT ON (bucket) k.id, bucket, started_at, hits FROM rate_window
    WHERE owner_id IN (acting_key.id, request->>'keyId')
    ORDER BY bucket, (started_at > clock_timestamp() - interval '1 minute') DESC, hits DESC;
  RETURN jsonb_build_object('verdict', 'created', 'organizationId', k.organization_id,
    'meta', api_key_meta(k));
END $$;

CREATE FUNCTION text_array(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE RETURN CASE
  WHEN jsonb_typeof(list) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(list))
END;

-- Revokes a key and returns the id of its organization, or null if there is no such key. The user's
-- row is locked first, so that a parallel request that creates a key with this one either commits
-- before or is rejected with `acting_key_invalid`. If `of_user` is null (operators), the key may
-- belong to any user.
CREATE FUNCTION revoke_api_key(key_id text, of_user text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE owner text; organization text;
BEGIN
  SELECT user_id INTO owner FROM api_key
    WHERE id = key_id AND (of_user IS NULL OR user_id = of_user);
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM app_user WHERE id = owner FOR NO KEY UPDATE;
  UPDATE api_key SET revoked_at = clock_timestamp() WHERE id = key_id AND revoked_at IS NULL
      AND (replaced_by IS NULL OR expires_at > clock_timestamp())
    RETURNING organization_id INTO organization;
  RETURN organization;
END $$;
