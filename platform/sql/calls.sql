-- Records of provider calls: what was about to be sent is written before it is sent.

-- Says whether a call may be sent now. A row in `begun` from an earlier attempt means that the earlier attempt may
-- have reached the provider: it is never sent a second time. Whoever finds it begun learns when its sender last
-- said that it lives, and which operation a notification has named since. A call to a paused provider is
-- not begun, it waits; a call of a settled job is never begun, whatever replays or resets its workflow. Both are
-- read where the call is begun, so that whoever pauses or settles knows that nothing is sent from then on.
-- {jobId, callIndex, routeIndex, provider, endpoint}
CREATE FUNCTION call_begin(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- What a provider took stays taken. `refused` (it certainly did not take the call) says so of a call that was
-- begun and nothing else, and nothing of a call changes once its outputs are there: an attempt that is late,
-- or not the only one, must not open a paid call to being sent again.
-- {state?, operation?, outputs?, progress?}
CREATE FUNCTION call_record(job text, index integer, told jsonb) RETURNS void LANGUAGE sql AS $$
  UPDATE provider_call SET state = coalesce(told->>'state', state),
    operation = coalesce(nullif(told->'operation', 'null'), operation),
    outputs = coalesce(nullif(told->'outputs', 'null'), outputs),
    progress = coalesce(nullif(told->'progress', 'null'), progress), updated_at = clock_timestamp()
    WHERE job_id = job AND call_index = index
      AND CASE told->>'state'
        WHEN 'refused' THEN state = 'begun'
        WHEN 'accepted' THEN state <> 'answered'
        ELSE true
      END
$$;
