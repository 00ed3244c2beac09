-- Idempotency-Keys: one function claims them all, for jobs, for chats, and for what is made in one
-- transaction. Who holds a claim is known by its attempt, and is believed only while it holds it.

ALTER TABLE idempotency_claim
  -- Of the request that holds the claim. A takeover puts its own here: whatever the former holder does
  -- late names another one, and does nothing.
  ADD COLUMN attempt text,
  -- `held`: nothing was started under the key. `started`: a start was sent, and may arrive at any time.
  -- `done`: the key stands for what was made.
  ADD COLUMN state text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'started', 'done')),
  -- A holder that lives renews this; after it, the claim may be taken over.
  ADD COLUMN held_until timestamptz NOT NULL DEFAULT now() + interval '10 seconds';

-- Claims of before: answers that were kept, API keys and secrets that were made. A start may have been
-- sent for any job.
UPDATE idempotency_claim SET state = CASE WHEN job_id LIKE 'job\_%' THEN 'started' ELSE 'done' END
  WHERE answer IS NOT NULL OR job_id NOT LIKE 'chat\_%';

DROP FUNCTION claim_idempotency_key(text, text, text, text, interval);
DROP FUNCTION claim_chat_key(text, text, text, text, interval);

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

-- The moves of a batch, its reserves of keyed chats turned into `unclaimed` where their claim names
-- another attempt by now. Accounts are locked first, as ledger_apply does: who waits for one must not
-- make others wait for a claim. Claims that are named stay locked until the reservations are there.
CREATE FUNCTION chat_claimed(moves jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE attempts text[];
BEGIN
  PERFORM FROM account
    WHERE organization_id = ANY (ARRAY(SELECT jsonb_array_elements(moves)->>'organizationId'))
    ORDER BY organization_id FOR UPDATE;
  attempts := ARRAY(
    SELECT c.attempt FROM jsonb_array_elements(moves) AS m
      JOIN idempotency_claim c ON c.organization_id = m->>'organizationId'
        AND c.idempotency_key = m->'claim'->>'key' AND c.attempt = m->'claim'->>'attempt'
      ORDER BY c.organization_id, c.idempotency_key FOR SHARE OF c);
  RETURN (SELECT jsonb_agg(CASE
        WHEN NOT m ? 'claim' OR m->'claim'->>'attempt' = ANY (attempts) THEN m
        ELSE m || '{"verb": "unclaimed"}' END ORDER BY position)
    FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(m, position));
END $$;

-- A batch of chats and leases.
--   reserve {organizationId, id, amountMin, amountMax, ttlMs, claim?: {key, attempt},
--     chat: {keyId, model, provider, streamed, requestId}}: as much of amountMax as is there, never less
--     than amountMin; a caller who names no max_tokens gets the longest answer that the balance can pay.
--     Of a keyed chat whose claim names another attempt: `claim_lost`, and nothing is reserved
--   settle as ledger_apply has it, with {inputTokens, outputTokens, countedBy}
--   lease as chat_lease_sync has it; leases are moved when the chats are
CREATE OR REPLACE FUNCTION chat_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(moves)]); m record;
BEGIN
  IF moves @? '$[*].claim' THEN moves := chat_claimed(moves); END IF;
  IF jsonb_path_exists(moves, '$[*] ? (@.verb != "lease")') THEN
    -- It locks the accounts of the leases, too.
    answers := ARRAY(SELECT jsonb_array_elements(ledger_apply(moves)));
    PERFORM ledger_write_chats(moves, answers);
  END IF;
  FOR m IN
    SELECT x.position, x.move FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
    WHERE x.move->>'verb' IN ('lease', 'unclaimed')
    ORDER BY x.move->>'organizationId', x.move->>'id', x.position
  LOOP
    answers[m.position] := CASE m.move->>'verb' WHEN 'lease' THEN chat_lease_sync(m.move)
      ELSE '{"verdict": "claim_lost"}' END;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;
