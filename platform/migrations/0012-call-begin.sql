-- As before, and: an attempt that finds a call begun learns when its sender last said that it lives, and
-- which operation a notification has named since: it can wait for the sender, and never sends again.
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
  RETURN jsonb_build_object('verdict', c.state, 'operation', c.operation, 'outputs', c.outputs,
    'touchedAtMs', unix_ms(c.updated_at), 'notifiedId', (
      SELECT operation_id FROM notification
        WHERE job_id = c.job_id AND call_index = c.call_index
        ORDER BY received_at DESC LIMIT 1));
END $$;
