-- Records of provider calls. A call is recorded before it is sent.

-- Returns the record of a call. `touchedAtMs` is the time at which its sender last recorded that it
-- is running; `notifiedId` is the operation that a notification has named.
CREATE FUNCTION call_found(c provider_call) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN jsonb_build_object('verdict', c.state, 'operation', c.operation, 'outputs', c.outputs,
    'touchedAtMs', unix_ms(c.updated_at), 'notifiedId', (
      SELECT operation_id FROM notification
        WHERE job_id = c.job_id AND call_index = c.call_index
        ORDER BY received_at DESC LIMIT 1));
END $$;

-- Returns whether a call may be sent now, and if so records it as begun. A row in `begun` of an
-- earlier attempt means that the provider may have received the call: it is never sent again. A
-- call to a paused provider waits. A call of a settled job is never begun, also after a replay or
-- reset of its workflow. Pause and settlement are read in the transaction that begins the call, so
-- nothing is sent after them. With `wait` the call is not begun: it is recorded as waiting while
-- the provider is paused, otherwise the verdict is `resumed`. An attempt that lost its connection
-- before it received the verdict repeats the request with the same senderId, because it has sent
-- nothing yet. Input: {jobId, callIndex, routeIndex, provider, endpoint, senderId?, wait?}
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

-- Records the progress of a call. `refused` is recorded only for a call in `begun`, and the state
-- does not change after the outputs are recorded, because a late attempt must not allow a paid call
-- to be sent again. Input: {state?, operation?, outputs?, progress?}
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
