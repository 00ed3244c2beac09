-- Webhooks of callers: who is to be told of a job's end, each attempt to tell, and the generations of
-- the secrets that sign. Answers kept under an Idempotency-Key.

-- Made before the job is admitted, so that no accepted job can lack it; a refused job takes it back.
CREATE TABLE webhook (
  job_id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  url text NOT NULL,
  state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'delivering', 'delivered', 'gone', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  -- When the next attempt is due, while there is one to come.
  next_attempt_at timestamptz,
  -- After this, whoever was delivering is believed to be gone.
  overdue_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX webhook_open ON webhook (created_at) WHERE state IN ('waiting', 'delivering');
CREATE INDEX webhook_of_organization ON webhook (organization_id, job_id DESC);

-- One row per attempt, written before it is sent: one that never tells its end says `sending`.
CREATE TABLE webhook_attempt (
  job_id text NOT NULL REFERENCES webhook ON DELETE CASCADE,
  number integer NOT NULL,
  outcome text NOT NULL DEFAULT 'sending'
    CHECK (outcome IN ('sending', 'delivered', 'gone', 'failed')),
  status integer,
  -- Why there is no status.
  error text,
  -- The first of what the receiver answered.
  response text,
  duration_ms integer,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (job_id, number)
) WITH (fillfactor = 80);

-- An organization without a row signs with generation 1; secrets are derived, never stored.
CREATE TABLE webhook_secret (
  organization_id text NOT NULL REFERENCES organization,
  generation integer NOT NULL CHECK (generation > 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Null: the one in use. Later than now: replaced, and still signing beside it.
  retires_at timestamptz,
  PRIMARY KEY (organization_id, generation)
);
CREATE UNIQUE INDEX webhook_secret_in_use ON webhook_secret (organization_id) WHERE retires_at IS NULL;

-- Makes a new generation; those before it sign for the overlap still, and at most `live_max` in all.
CREATE FUNCTION rotate_webhook_secret(of_organization text, overlap interval, live_max integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest integer; at timestamptz;
BEGIN
  PERFORM FROM organization WHERE id = of_organization FOR NO KEY UPDATE;
  at := clock_timestamp();
  INSERT INTO webhook_secret (organization_id, generation) VALUES (of_organization, 1)
    ON CONFLICT DO NOTHING;
  SELECT max(generation) INTO newest FROM webhook_secret WHERE organization_id = of_organization;
  UPDATE webhook_secret SET retires_at = least(coalesce(retires_at, at + overlap), at + overlap)
    WHERE organization_id = of_organization AND (retires_at IS NULL OR retires_at > at);
  UPDATE webhook_secret SET retires_at = at
    WHERE organization_id = of_organization AND retires_at > at AND generation <= newest + 1 - live_max;
  INSERT INTO webhook_secret (organization_id, generation) VALUES (of_organization, newest + 1);
  RETURN newest + 1;
END $$;

-- What is kept under a key of a request that has no job: a chat's answer, whole or as its stream.
ALTER TABLE idempotency_claim ADD COLUMN answer bytea, ADD COLUMN answer_type text;

-- Claims a key for a chat. A key is free again exactly when nothing was charged under it; otherwise it
-- stands for the answer, or for the fact that the answer was not kept.
CREATE FUNCTION claim_chat_key(
  organization text, key text, request_fingerprint text, new_chat_id text, stale_after interval
) RETURNS TABLE (verdict text, answer bytea, answer_type text) LANGUAGE plpgsql AS $$
DECLARE c idempotency_claim; r reservation; at timestamptz;
BEGIN
  INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, job_id)
    VALUES (organization, key, request_fingerprint, new_chat_id)
    ON CONFLICT DO NOTHING;
  IF FOUND THEN RETURN QUERY SELECT 'claimed', NULL::bytea, NULL; RETURN; END IF;
  SELECT * INTO c FROM idempotency_claim
    WHERE organization_id = organization AND idempotency_key = key FOR UPDATE;
  IF NOT FOUND THEN RETURN QUERY SELECT 'in_progress', NULL::bytea, NULL; RETURN; END IF;
  IF c.fingerprint <> request_fingerprint THEN
    RETURN QUERY SELECT 'other', NULL::bytea, NULL; RETURN;
  END IF;
  IF c.answer IS NOT NULL THEN RETURN QUERY SELECT 'same', c.answer, c.answer_type; RETURN; END IF;
  at := clock_timestamp();
  SELECT * INTO r FROM reservation WHERE id = c.job_id;
  IF r.state = 'charged' THEN
    -- The answer is kept a moment before or after the charge, if it is kept at all.
    RETURN QUERY SELECT CASE WHEN r.settled_at < at - stale_after THEN 'not_kept'
      ELSE 'in_progress' END, NULL::bytea, NULL;
    RETURN;
  END IF;
  IF r.state = 'released' OR (r.id IS NULL AND c.created_at < at - stale_after) THEN
    UPDATE idempotency_claim SET job_id = new_chat_id, created_at = at
      WHERE organization_id = organization AND idempotency_key = key;
    RETURN QUERY SELECT 'claimed', NULL::bytea, NULL;
    RETURN;
  END IF;
  RETURN QUERY SELECT 'in_progress', NULL::bytea, NULL;
END $$;
