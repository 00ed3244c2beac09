-- Functions that read and change the records of provider calls. A call is recorded before it is
-- sent.

-- Returns the record of a call as JSON. `updatedAtMs` is the Unix time in milliseconds at which the
-- attempt that sends the call last recorded that it is running. `notifiedId` is the operation id in
-- the most recent notification for the call.
CREATE FUNCTION call_found(c provider_call) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN jsonb_build_object('verdict', c.state, 'operation', c.operation, 'outputs', c.outputs,
    'providerRequestId', c.provider_request_id, 'updatedAtMs', unix_ms(c.updated_at), 'notifiedId', (
      SELECT operation_id FROM provider_notification
        WHERE job_id = c.job_id AND call_index = c.call_index
          -- A call that was sent again is not identified by its earlier operation.
          AND NOT c.unaccepted_submits @> jsonb_build_array(jsonb_build_object('providerRequestId', operation_id))
        ORDER BY received_at DESC LIMIT 1));
END $$;

-- Decides whether an attempt may send a call now. If it may, records the call as `begun`. The
-- attempt is {jobId, callIndex, routeIndex, provider, providerEndpoint, senderId?, wait?}.
-- * If an earlier attempt has recorded `begun`, the call is not sent again, because it may have
--   reached the provider. An attempt that lost its connection before it received the result calls
--   this function again with the same senderId. It has not sent the call, so the result is `send`
--   again.
-- * A call to a paused provider is recorded as `waiting`.
-- * A call of a settled job is never begun, even if the workflow of the job is reset.
-- * If `wait` is true, the call is not begun. If the provider is paused, the call is recorded as
--   `waiting`; otherwise the result is `resumed`.
-- Pauses and settlements are read in the same transaction, so no call begins after a pause or a
-- settlement is committed.
CREATE FUNCTION call_begin(attempt jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c provider_call;
  is_paused boolean := EXISTS (SELECT FROM provider_pause WHERE provider = attempt->>'provider');
  begun_state text := CASE WHEN is_paused THEN 'waiting' ELSE 'begun' END;
  result jsonb := jsonb_build_object('verdict', CASE WHEN is_paused THEN 'paused' ELSE 'send' END);
  is_open boolean := EXISTS (SELECT FROM reservation WHERE id = attempt->>'jobId' AND state = 'reserved');
BEGIN
  IF attempt ? 'wait' AND NOT is_paused THEN RETURN '{"verdict": "resumed"}'; END IF;
  INSERT INTO provider_call (job_id, call_index, route_index, provider, provider_endpoint, state,
      sender_id, paused_at)
    SELECT attempt->>'jobId', (attempt->>'callIndex')::integer, (attempt->>'routeIndex')::integer,
      attempt->>'provider', attempt->>'providerEndpoint', begun_state, attempt->>'senderId',
      CASE WHEN is_paused THEN clock_timestamp() END WHERE is_open
    ON CONFLICT (job_id, call_index) DO NOTHING;
  IF FOUND THEN RETURN result; END IF;
  SELECT * INTO c FROM provider_call
    WHERE job_id = attempt->>'jobId' AND call_index = (attempt->>'callIndex')::integer FOR UPDATE;
  IF NOT is_open AND (c.state IS NULL OR c.state IN ('not_accepted', 'waiting')) THEN
    RETURN jsonb_build_object('verdict', 'settled');
  END IF;
  IF c.state = 'begun' AND c.sender_id = attempt->>'senderId' THEN RETURN '{"verdict": "send"}'; END IF;
  IF c.state IN ('not_accepted', 'waiting') THEN
    UPDATE provider_call SET state = begun_state,
      attempts = attempts + CASE c.state WHEN 'not_accepted' THEN 1 ELSE 0 END, route_index = (attempt->>'routeIndex')::integer,
      provider = attempt->>'provider', provider_endpoint = attempt->>'providerEndpoint', sender_id = attempt->>'senderId',
      provider_request_id = NULL, provider_error_type = NULL,
      paused_at = coalesce(c.paused_at, CASE WHEN is_paused THEN clock_timestamp() END),
      updated_at = clock_timestamp(),
      begun_at = CASE WHEN c.state = 'waiting' AND NOT is_paused THEN clock_timestamp()
        ELSE c.begun_at END
      WHERE job_id = c.job_id AND call_index = c.call_index;
    RETURN result;
  END IF;
  RETURN call_found(c);
END $$;

-- Records a change of a call. The change is {state?, operation?, outputs?, progress?,
-- providerRequestId?, providerErrorType?, message?, unread?}. The states `not_accepted` (the provider certainly did not
-- accept the call) and `unknown` are recorded only for a call in state `begun`. If `unread` is the operation of an accepted
-- call, which ended because its provider could not read the input, the call becomes `not_accepted` too. The state `accepted` is
-- not recorded for a call in state `answered`. Otherwise, a late or concurrent attempt could cause
-- a paid call to be sent again, or overwrite an operation that a notification has identified.
CREATE FUNCTION call_record(job text, index integer, change jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE provider_call SET state = coalesce(change->>'state', state),
    operation = coalesce(nullif(change->'operation', 'null'), operation),
    outputs = coalesce(nullif(change->'outputs', 'null'), outputs),
    progress = coalesce(nullif(change->'progress', 'null'), progress), updated_at = clock_timestamp(),
    provider_request_id = coalesce(change->>'providerRequestId', change->'operation'->>'id',
      provider_request_id),
    provider_error_type = coalesce(change->>'providerErrorType', provider_error_type),
    unaccepted_submits = CASE change->>'state'
      WHEN 'not_accepted' THEN unaccepted_submits || jsonb_build_object('routeIndex', route_index,
        'provider', provider, 'message', change->>'message',
        'providerRequestId', change->>'providerRequestId',
        'providerErrorType', change->>'providerErrorType', 'failedAtMs', unix_ms(clock_timestamp()))
      ELSE unaccepted_submits END,
    accepted_at = CASE change->>'state' WHEN 'accepted' THEN clock_timestamp() ELSE accepted_at END,
    answered_at = CASE change->>'state' WHEN 'answered' THEN clock_timestamp() ELSE answered_at END
    WHERE job_id = job AND call_index = index
      AND CASE change->>'state'
        WHEN 'not_accepted' THEN CASE WHEN change ? 'unread'
          THEN state = 'accepted' AND operation = change->'unread' ELSE state = 'begun' END
        WHEN 'unknown' THEN state = 'begun'
        WHEN 'accepted' THEN state <> 'answered'
        ELSE true
      END;
END $$;

-- Records that attempts [{jobId, callIndex, senderId}] have ended without a call that a provider
-- accepted, so that their calls may be sent again. A call that another attempt has begun since then
-- is not changed.
CREATE FUNCTION call_unsent(senders jsonb) RETURNS void LANGUAGE sql AS $$
  UPDATE provider_call AS c SET state = 'not_accepted', updated_at = clock_timestamp()
    FROM jsonb_to_recordset(senders) AS a ("jobId" text, "callIndex" integer, "senderId" text)
    WHERE c.job_id = a."jobId" AND c.call_index = a."callIndex" AND c.sender_id = a."senderId"
      AND c.state = 'begun';
$$;
