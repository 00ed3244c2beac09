-- Claims of Idempotency-Keys. A request claims its key for what it creates: a job, a chat, or a row
-- in the same transaction. The column `subject_id` is the id of this job, chat or row. The column
-- `holder` is the token of the request that has the claim; updates with another token have no
-- effect.

-- Claims a key. Results (column `verdict`):
--   claimed      the request has claimed the key; `subject` is its new id, or the id of the job that an
--                earlier request may have started
--   done         an earlier request has created the job, chat or row with the id `subject`;
--                `answer_bytes` is the size of its response, or null if the response was not stored
--   other        an earlier request with another path or body used the key
--   in_progress  another request has claimed the key, or the chat of the key is still running
--   not_kept     the chat of the key was charged, but its response was not stored
CREATE FUNCTION claim_key(
  organization text, key text, request_fingerprint text, new_subject text, new_holder text,
  hold_for interval
) RETURNS TABLE (verdict text, subject text, answer_bytes integer, answer_headers jsonb) LANGUAGE plpgsql AS $$
DECLARE c idempotency_claim; r reservation; at timestamptz;
BEGIN
  INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, subject_id, holder, held_until)
    VALUES (organization, key, request_fingerprint, new_subject, new_holder, clock_timestamp() + hold_for)
    ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN QUERY SELECT 'claimed', new_subject, NULL::integer, NULL::jsonb; RETURN; END IF;
  -- FOR UPDATE waits for any transaction that has locked this claim to reserve credits
  -- (holds_claim), so that the reservation of that transaction is visible below.
  SELECT * INTO c FROM idempotency_claim
    WHERE organization_id = organization AND idempotency_key = key FOR UPDATE;
  -- The claim was deleted after the INSERT, so the request must be retried.
  IF NOT FOUND THEN RETURN QUERY SELECT 'in_progress', NULL, NULL::integer, NULL::jsonb; RETURN; END IF;
  IF c.fingerprint <> request_fingerprint THEN
    RETURN QUERY SELECT 'other', NULL, NULL::integer, NULL::jsonb; RETURN;
  END IF;
  SELECT * INTO r FROM reservation WHERE id = c.subject_id;
  IF c.state = 'done' OR r.id LIKE 'job\_%' THEN
    RETURN QUERY SELECT 'done', c.subject_id, octet_length(c.answer), c.answer_headers; RETURN;
  END IF;
  at := clock_timestamp();
  -- A chat's response is stored within moments of its charge. If `hold_for` has passed since the
  -- charge, it will never be stored.
  IF r.state = 'charged' AND r.settled_at < at - hold_for THEN
    RETURN QUERY SELECT 'not_kept', NULL, NULL::integer, NULL::jsonb; RETURN;
  END IF;
  IF r.state IN ('charged', 'reserved') OR r.id IS NULL AND c.held_until > at THEN
    RETURN QUERY SELECT 'in_progress', NULL, NULL::integer, NULL::jsonb; RETURN;
  END IF;
  UPDATE idempotency_claim SET holder = new_holder, held_until = at + hold_for, created_at = at,
      subject_id = CASE WHEN c.state = 'started' THEN c.subject_id ELSE new_subject END
    WHERE organization_id = organization AND idempotency_key = key RETURNING subject_id INTO subject;
  RETURN QUERY SELECT 'claimed', subject, NULL::integer, NULL::jsonb;
END $$;

-- Returns whether a chat's claim {key, holder} still has this token. Locks the claim, so that no
-- request can take it over until the transaction that reserves the chat's credits has ended.
CREATE FUNCTION holds_claim(organization text, claim jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM idempotency_claim WHERE organization_id = organization
    AND idempotency_key = claim->>'key' AND holder = claim->>'holder' FOR SHARE;
  RETURN FOUND;
END $$;
