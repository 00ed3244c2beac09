-- What operators hold back and look into: paused providers, outcomes that became known too late,
-- and the processes of the gateway.

-- While a row is here no new call is sent to that provider; what was sent is still collected.
CREATE TABLE provider_pause (
  provider text PRIMARY KEY,
  actor text NOT NULL,
  reason text NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- `waiting`: not sent, because its provider is paused. `endpoint`: the provider's name of the operation,
-- with which a call is found again that is known by its id alone.
ALTER TABLE provider_call
  DROP CONSTRAINT provider_call_state_check,
  ADD CONSTRAINT provider_call_state_check
    CHECK (state IN ('waiting', 'begun', 'refused', 'accepted', 'answered', 'unknown')),
  ADD COLUMN endpoint text;

-- As before, and: a call to a paused provider is not begun, it waits; a call of a settled job is never
-- begun (`settled`), whatever replays or resets its workflow. Both are read where the call is begun, so
-- that whoever pauses or settles knows that nothing is sent from then on.
-- {jobId, callIndex, routeIndex, provider, endpoint}
CREATE OR REPLACE FUNCTION call_begin(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c provider_call;
  paused boolean := EXISTS (SELECT FROM provider_pause WHERE provider = move->>'provider');
  begun text := CASE WHEN paused THEN 'waiting' ELSE 'begun' END;
  sent jsonb := jsonb_build_object('verdict', CASE WHEN paused THEN 'paused' ELSE 'send' END);
  open boolean := EXISTS (SELECT FROM reservation WHERE id = move->>'jobId' AND state = 'reserved');
BEGIN
  INSERT INTO provider_call (job_id, call_index, route_index, provider, endpoint, state)
    SELECT move->>'jobId', (move->>'callIndex')::integer, (move->>'routeIndex')::integer,
      move->>'provider', move->>'endpoint', begun WHERE open
    ON CONFLICT (job_id, call_index) DO NOTHING;
  IF FOUND THEN RETURN sent; END IF;
  SELECT * INTO c FROM provider_call
    WHERE job_id = move->>'jobId' AND call_index = (move->>'callIndex')::integer FOR UPDATE;
  IF NOT open AND (c.state IS NULL OR c.state IN ('refused', 'waiting')) THEN
    RETURN jsonb_build_object('verdict', 'settled');
  END IF;
  IF c.state IN ('refused', 'waiting') THEN
    UPDATE provider_call SET state = begun, route_index = (move->>'routeIndex')::integer,
      provider = move->>'provider', endpoint = move->>'endpoint', updated_at = clock_timestamp(),
      begun_at = CASE WHEN c.state = 'waiting' AND NOT paused THEN clock_timestamp()
        ELSE c.begun_at END
      WHERE job_id = c.job_id AND call_index = c.call_index;
    RETURN sent;
  END IF;
  RETURN jsonb_build_object('verdict', CASE c.state WHEN 'begun' THEN 'unknown' ELSE c.state END,
    'routeIndex', c.route_index, 'operation', c.operation, 'outputs', c.outputs);
END $$;

-- What a provider said of a call after its job had been released: nobody is charged for it any more, but
-- operators see what it cost them.
CREATE TABLE late_outcome (
  job_id text NOT NULL,
  call_index integer NOT NULL,
  provider text NOT NULL,
  operation jsonb NOT NULL,
  verdict text NOT NULL CHECK (verdict IN ('pending', 'succeeded', 'failed', 'canceled')),
  found_by text NOT NULL CHECK (found_by IN ('notification', 'follow_up', 'operator')),
  looks integer NOT NULL DEFAULT 1,
  found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_look_at timestamptz,
  PRIMARY KEY (job_id, call_index),
  FOREIGN KEY (job_id, call_index) REFERENCES provider_call
);

-- Jobs that were released without the provider's word. Its columns do not change when a job is charged,
-- so that settling a charged job stays an update within its page.
CREATE INDEX job_without_verdict ON job (id)
  WHERE error->>'code' IN ('OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST');

-- The processes that serve: seen every few seconds, asked to drain by whoever operates.
CREATE TABLE gateway_process (
  id text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('api', 'worker')),
  host text NOT NULL,
  pid integer NOT NULL,
  build_id text,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  drain_asked_at timestamptz
);
