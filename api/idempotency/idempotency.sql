-- Idempotency-Keys: one function claims them all, for jobs, for chats, and for what is made in one
-- transaction. Who holds a claim is known by its attempt, and is believed only while it holds it.

-- Claims a key. Verdicts:
--   claimed      the caller holds it now, for `subject`: its own, or that of a start which may still arrive
--   done         it stands for `subject`, and for the answer if one was kept
--   other        it was used with another request
--   in_progress  somebody holds it, or what was made under it has not ended yet
--   not_kept     a chat was charged under it, and its answer is not there
CREATE FUNCTION claim_key(
  organization text, key text, request_fingerprint text, new_subject text, new_attempt text,
  hold_for interval
) RETURNS TABLE (verdict text, subject text, answer bytea, answer_type text) LANGUAGE plpgsql AS $$
DECLARE c idempotency_claim; r reservation; at timestamptz;
BEGIN
  INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, job_id, attempt, held_until)
    VALUES (organization, key, request_fingerprint, new_subject, new_attempt, clock_timestamp() + hold_for)
    ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN QUERY SELECT 'claimed', new_subject, NULL::bytea, NULL; RETURN; END IF;
  -- Waits for a reserve that looks at the claim just now: what that reserved is found below.
  SELECT * INTO c FROM idempotency_claim
    WHERE organization_id = organization AND idempotency_key = key FOR UPDATE;
  -- Given back between the two statements: the caller tries again.
  IF NOT FOUND THEN RETURN QUERY SELECT 'in_progress', NULL, NULL::bytea, NULL; RETURN; END IF;
  IF c.fingerprint <> request_fingerprint THEN
    RETURN QUERY SELECT 'other', NULL, NULL::bytea, NULL; RETURN;
  END IF;
  SELECT * INTO r FROM reservation WHERE id = c.job_id;
  IF c.state = 'done' OR r.kind = 'studio' THEN
    RETURN QUERY SELECT 'done', c.job_id, c.answer, c.answer_type; RETURN;
  END IF;
  at := clock_timestamp();
  -- The answer of a chat is kept a moment before or after its charge, if it is kept at all.
  IF r.state = 'charged' AND r.settled_at < at - hold_for THEN
    RETURN QUERY SELECT 'not_kept', NULL, NULL::bytea, NULL; RETURN;
  END IF;
  IF r.state IN ('charged', 'reserved') OR r.id IS NULL AND c.held_until > at THEN
    RETURN QUERY SELECT 'in_progress', NULL, NULL::bytea, NULL; RETURN;
  END IF;
  UPDATE idempotency_claim SET attempt = new_attempt, held_until = at + hold_for, created_at = at,
      job_id = CASE WHEN c.state = 'started' THEN c.job_id ELSE new_subject END
    WHERE organization_id = organization AND idempotency_key = key RETURNING job_id INTO subject;
  RETURN QUERY SELECT 'claimed', subject, NULL::bytea, NULL;
END $$;

-- Whether a chat's claim {key, attempt} still names this attempt. It cannot be taken over from then on until the
-- transaction ends, which reserves: whoever takes it over then finds the reservation.
CREATE FUNCTION holds_claim(organization text, claim jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM idempotency_claim WHERE organization_id = organization
    AND idempotency_key = claim->>'key' AND attempt = claim->>'attempt' FOR SHARE;
  RETURN FOUND;
END $$;
