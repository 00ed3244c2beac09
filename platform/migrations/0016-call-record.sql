-- As before, and: what a provider took stays taken. `refused` (it certainly did not take the call) says so of a
-- call that was begun and nothing else, and nothing of a call changes once its outputs are there: an
-- attempt that is late, or not the only one, must not open a paid call to being sent again.
-- {jobId, callIndex, state, operation?, outputs?, progress?}
CREATE OR REPLACE FUNCTION call_record(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE provider_call SET state = coalesce(move->>'state', state),
    operation = coalesce(nullif(move->'operation', 'null'), operation),
    outputs = coalesce(nullif(move->'outputs', 'null'), outputs),
    progress = coalesce(nullif(move->'progress', 'null'), progress), updated_at = clock_timestamp()
    WHERE job_id = move->>'jobId' AND call_index = (move->>'callIndex')::integer
      AND CASE move->>'state'
        WHEN 'refused' THEN state = 'begun'
        WHEN 'accepted' THEN state <> 'answered'
        ELSE true
      END;
  RETURN jsonb_build_object('verdict', CASE WHEN FOUND THEN 'recorded' ELSE 'no_call' END);
END $$;
