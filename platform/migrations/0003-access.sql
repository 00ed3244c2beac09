-- Admission of requests: one round trip finds the key, its organization and counts the request.

-- {mac (hex), bucket, limit} → null for a key that does not admit, else who calls and what is left.
CREATE FUNCTION admit_request(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  k record; at timestamptz := clock_timestamp(); counted integer;
  minute bigint := floor(extract(epoch FROM at) / 60);
BEGIN
  SELECT a.id, a.organization_id, a.member_id, a.scopes, a.allowed_models, a.last_used_at,
      m.role, o.status AS organization_status
    INTO k
    FROM api_key a JOIN member m ON m.id = a.member_id JOIN organization o ON o.id = a.organization_id
    WHERE a.mac = decode(request->>'mac', 'hex') AND a.revoked_at IS NULL
      AND (a.expires_at IS NULL OR a.expires_at > at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO rate_window AS w (key_id, bucket, window_start, hits)
    VALUES (k.id, request->>'bucket', minute, 1)
    ON CONFLICT (key_id, bucket) DO UPDATE
      SET hits = CASE WHEN w.window_start = minute THEN w.hits + 1 ELSE 1 END, window_start = minute
    RETURNING hits INTO counted;
  IF k.last_used_at IS NULL OR k.last_used_at < at - interval '1 minute' THEN
    UPDATE api_key SET last_used_at = at WHERE id = k.id;
  END IF;
  RETURN jsonb_build_object('keyId', k.id, 'organizationId', k.organization_id,
    'memberId', k.member_id, 'role', k.role, 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models), 'organizationStatus', k.organization_status,
    'hits', counted, 'resetAtSeconds', (minute + 1) * 60,
    'nowMs', floor(extract(epoch FROM at) * 1000));
END $$;

CREATE FUNCTION admit_requests(requests jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(requests)]);
  r record;
BEGIN
  FOR r IN
    SELECT x.value AS request, x.ordinality AS position
    FROM jsonb_array_elements(requests) WITH ORDINALITY AS x
    ORDER BY x.value->>'mac', x.value->>'bucket', x.ordinality
  LOOP
    answers[r.position] := admit_request(r.request);
  END LOOP;
  RETURN to_jsonb(answers);
END $$;

-- Claims an Idempotency-Key for a job: `claimed` (ours now), `same` or `other` request, or `claimed`
-- again when the one who claimed it died before its job was admitted.
CREATE FUNCTION claim_idempotency_key(
  organization text, key text, request_fingerprint text, new_job_id text, stale_after interval
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE c idempotency_claim; admitted boolean;
BEGIN
  INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, job_id)
    VALUES (organization, key, request_fingerprint, new_job_id)
    ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN jsonb_build_object('verdict', 'claimed', 'jobId', new_job_id); END IF;
  SELECT * INTO c FROM idempotency_claim
    WHERE organization_id = organization AND idempotency_key = key FOR UPDATE;
  -- Deleted between the two statements by a refusal: the caller tries again.
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'in_progress'); END IF;
  IF c.fingerprint <> request_fingerprint THEN RETURN jsonb_build_object('verdict', 'other'); END IF;
  SELECT EXISTS (SELECT FROM job WHERE id = c.job_id) INTO admitted;
  IF admitted THEN RETURN jsonb_build_object('verdict', 'same', 'jobId', c.job_id); END IF;
  IF c.created_at < clock_timestamp() - stale_after THEN
    UPDATE idempotency_claim SET created_at = clock_timestamp()
      WHERE organization_id = organization AND idempotency_key = key;
    RETURN jsonb_build_object('verdict', 'claimed', 'jobId', c.job_id);
  END IF;
  RETURN jsonb_build_object('verdict', 'in_progress');
END $$;
