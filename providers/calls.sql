-- Records of provider calls: what was about to be sent is written before it is sent.

-- The record of a call, as attempts read it. `touchedAtMs` is when its sender last said that it runs; `notifiedId` is
-- the operation that a notification has named.
CREATE FUNCTION call_found(c provider_call) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN jsonb_build_object('verdict', c.state, 'operation', c.operation, 'outputs', c.outputs,
    'touchedAtMs', unix_ms(c.updated_at), 'notifiedId', (
      SELECT operation_id FROM notification
        WHERE job_id = c.job_id AND call_index = c.call_index
        ORDER BY received_at DESC LIMIT 1));
END $$;

-- Says whether a call may be sent now, and if so records it as begun. A row in `begun` from an earlier attempt means
-- that the earlier attempt may have reached the provider: it is never sent a second time. A call to a paused provider
-- waits; a call of a settled job is never begun, whatever replays or resets its workflow. Both are read where the
-- call is begun, so nothing is sent after the transaction that pauses or settles. With `wait` nothing is begun: the
-- call is recorded as waiting while the provider is paused, else the verdict is `resumed`. An attempt that lost the
-- connection before it had the verdict asks again with the same senderId: it has sent nothing yet.
-- {jobId, callIndex, routeIndex, provider, endpoint, senderId?, wait?}
CREATE FUNCTION call_begin(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c provider_call;
  paused boolean := EXISTS (SELECT FROM provider_pause WHERE provider = move->>'provider');
  begun text := CASE WHEN paused THEN 'waiting' ELSE 'begun' END;
  sent jsonb := jsonb_build_object('verdict', CASE WHEN paused THEN 'paused' ELSE 'send' END);
  open boolean := EXISTS (SELECT FROM reservation WHERE id = move->>'jobId' AND state = 'reserved');
BEGIN
  IF move ? 'wait' AND NOT paused THEN RETURN '{"verdict": "resumed"}'; END IF;
  INSERT INTO provider_call (job_id, call_index, route_index, provider, endpoint, state, sender_id)
    SELECT move->>'jobId', (move->>'callIndex')::integer, (move->>'routeIndex')::integer,
      move->>'provider', move->>'endpoint', begun, move->>'senderId' WHERE open
    ON CONFLICT (job_id, call_index) DO NOTHING;
  IF FOUND THEN RETURN sent; END IF;
  SELECT * INTO c FROM provider_call
    WHERE job_id = move->>'jobId' AND call_index = (move->>'callIndex')::integer FOR UPDATE;
  IF NOT open AND (c.state IS NULL OR c.state IN ('refused', 'waiting')) THEN
    RETURN jsonb_build_object('verdict', 'settled');
  END IF;
  IF c.state = 'begun' AND c.sender_id = move->>'senderId' THEN RETURN '{"verdict": "send"}'; END IF;
  IF c.state IN ('refused', 'waiting') THEN
    UPDATE provider_call SET state = begun,
      attempts = attempts + CASE c.state WHEN 'refused' THEN 1 ELSE 0 END, route_index = (move->>'routeIndex')::integer,
      provider = move->>'provider', endpoint = move->>'endpoint', sender_id = move->>'senderId',
      updated_at = clock_timestamp(),
      begun_at = CASE WHEN c.state = 'waiting' AND NOT paused THEN clock_timestamp()
        ELSE c.begun_at END
      WHERE job_id = c.job_id AND call_index = c.call_index;
    RETURN sent;
  END IF;
  RETURN call_found(c);
END $$;

-- What a provider took stays taken. `refused` (it certainly did not take the call) says so of a call that was
-- begun and nothing else, and nothing of a call changes once its outputs are there: an attempt that is late,
-- or not the only one, must not open a paid call to being sent again.
-- {state?, operation?, outputs?, progress?}
CREATE FUNCTION call_record(job text, index integer, told jsonb) RETURNS void LANGUAGE sql AS $$
  UPDATE provider_call SET state = coalesce(told->>'state', state),
    operation = coalesce(nullif(told->'operation', 'null'), operation),
    outputs = coalesce(nullif(told->'outputs', 'null'), outputs),
    progress = coalesce(nullif(told->'progress', 'null'), progress), updated_at = clock_timestamp(),
    accepted_at = CASE told->>'state' WHEN 'accepted' THEN clock_timestamp() ELSE accepted_at END,
    answered_at = CASE told->>'state' WHEN 'answered' THEN clock_timestamp() ELSE answered_at END
    WHERE job_id = job AND call_index = index
      AND CASE told->>'state'
        WHEN 'refused' THEN state = 'begun'
        WHEN 'accepted' THEN state <> 'answered'
        ELSE true
      END
$$;
